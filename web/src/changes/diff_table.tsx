/**
 * A diff of any length: only the blocks of lines that are near the screen are in the page.
 *
 * The height of a block is estimated until it was shown once; then it is known. What is above and below takes its room
 * as one empty box each.
 */

import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode, type RefObject } from "react";
import { DiffText, languageOf } from "./diff_text.js";
import type { DiffLine } from "./diff_lines.js";
import type { DiffRow } from "./changes_api.js";

/** Few, so that a frame in which the next block is drawn is no longer than others. */
const BLOCK_LINES = 8;
const LINE_PX = 20;
const MARGIN_PX = 400;

export interface DiffTableProps {
  readonly path: string;
  /** For those who do not see it; else that it is the changes of the file. */
  readonly label?: string;
  readonly lines: readonly DiffLine[];
  readonly isSplit: boolean;
  readonly isWrapped: boolean;
  /** What scrolls. */
  readonly scroller: RefObject<HTMLElement | null>;
  /** The line that is looked at; it is brought to the screen when `asked` changes. */
  readonly cursor: number;
  readonly asked: number;
  readonly onLine: (index: number) => void;
  readonly onExpand: (() => void) | null;
  /** Below a line, such as a note. */
  readonly below: { readonly index: number; readonly node: ReactNode } | null;
}

export function DiffTable(props: DiffTableProps) {
  const { lines, scroller, cursor, asked, isWrapped, isSplit } = props;
  const box = useRef<HTMLDivElement>(null);
  const count = Math.ceil(lines.length / BLOCK_LINES);
  const heights = useMemo(() => new Map<number, number>(), [lines, isWrapped, isSplit]);
  const heightOf = useCallback(
    (block: number) => heights.get(block) ?? Math.min(BLOCK_LINES, lines.length - block * BLOCK_LINES) * LINE_PX,
    [heights, lines.length],
  );
  const [shown, setShown] = useState<readonly [number, number]>([0, Math.min(count, 3)]);
  const look = useCallback(() => {
    if (box.current && scroller.current) setShown((before) => nearScreen(box.current!, scroller.current!, count, heightOf, before));
  }, [scroller, count, heightOf]);
  useLayoutEffect(look, [look]);
  useEffect(() => {
    const place = scroller.current;
    let frame = 0;
    const later = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(look);
    };
    const observer = new ResizeObserver(later);
    if (place) {
      place.addEventListener("scroll", later, { passive: true });
      observer.observe(place);
    }
    return () => {
      cancelAnimationFrame(frame);
      place?.removeEventListener("scroll", later);
      observer.disconnect();
    };
  }, [scroller, look]);
  useEffect(() => {
    if (!asked || cursor < 0 || !box.current || !scroller.current) return;
    const top = sum(0, Math.floor(cursor / BLOCK_LINES), heightOf) + (cursor % BLOCK_LINES) * LINE_PX;
    const offset = box.current.getBoundingClientRect().top - scroller.current.getBoundingClientRect().top + scroller.current.scrollTop;
    scroller.current.scrollTop = Math.max(0, offset + top - scroller.current.clientHeight / 3);
  }, [asked]);
  const [from, to] = [Math.min(shown[0], count), Math.min(Math.max(shown[1], 1), count)];
  const measured = useCallback((block: number, height: number) => heights.set(block, height), [heights]);
  return (
    <div ref={box} className="changes-diff" data-split={isSplit || undefined} data-wrapped={isWrapped || undefined} role="table" aria-label={props.label ?? `Changes of ${props.path}`} aria-rowcount={lines.length}>
      <div style={{ height: sum(0, from, heightOf) }} aria-hidden="true" />
      {Array.from({ length: to - from }, (_, index) => from + index).map((block) => (
        <Block
          key={block}
          block={block}
          lines={lines}
          isSplit={isSplit}
          path={props.path}
          cursor={blockOf(cursor) === block ? cursor : -1}
          below={props.below && blockOf(props.below.index) === block ? props.below : null}
          onLine={props.onLine}
          onExpand={props.onExpand}
          measured={measured}
        />
      ))}
      <div style={{ height: sum(to, count, heightOf) }} aria-hidden="true" />
    </div>
  );
}

function sum(from: number, to: number, heightOf: (block: number) => number): number {
  let total = 0;
  for (let block = from; block < to; block++) total += heightOf(block);
  return total;
}

function nearScreen(
  box: HTMLElement,
  scroller: HTMLElement,
  count: number,
  heightOf: (block: number) => number,
  before: readonly [number, number],
): readonly [number, number] {
  const screen = scroller.getBoundingClientRect();
  let at = box.getBoundingClientRect().top;
  let from = -1;
  let to = 0;
  for (let block = 0; block < count; block++) {
    const end = at + heightOf(block);
    if (end > screen.top - MARGIN_PX && at < screen.bottom + MARGIN_PX) {
      if (from < 0) from = block;
      to = block + 1;
    }
    at = end;
  }
  const next: readonly [number, number] = from < 0 ? [0, 0] : [from, to];
  return next[0] === before[0] && next[1] === before[1] ? before : next;
}

const blockOf = (line: number) => (line < 0 ? -1 : Math.floor(line / BLOCK_LINES));

interface BlockProps extends Pick<DiffTableProps, "lines" | "isSplit" | "path" | "cursor" | "below" | "onLine" | "onExpand"> {
  readonly block: number;
  readonly measured: (block: number, height: number) => void;
}

/** Drawn once, while others come and go beside it. */
const Block = memo(function Block({ block, measured, lines, isSplit, path, cursor, onLine, onExpand, below }: BlockProps) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (place.current) measured(block, place.current.getBoundingClientRect().height);
  });
  const language = languageOf(path);
  const first = block * BLOCK_LINES;
  return (
    <div ref={place} role="rowgroup">
      {lines.slice(first, first + BLOCK_LINES).map((line, index) => (
        <div key={first + index} role="presentation">
          <Line line={line} index={first + index} isSplit={isSplit} language={language} isCursor={cursor === first + index} onLine={onLine} onExpand={onExpand} />
          {below?.index === first + index && (
            <div role="row">
              <div role="cell">{below.node}</div>
            </div>
          )}
        </div>
      ))}
    </div>
  );
});

interface LineProps {
  readonly line: DiffLine;
  readonly index: number;
  readonly isSplit: boolean;
  readonly language: string;
  readonly isCursor: boolean;
  readonly onLine: (index: number) => void;
  readonly onExpand: (() => void) | null;
}

const Line = memo(function Line({ line, index, isSplit, language, isCursor, onLine, onExpand }: LineProps) {
  const { place, left, right, partner } = line;
  if (place) return <Place row={place} onExpand={onExpand} />;
  const touch = () => onLine(index);
  const row = right ?? left!;
  if (!isSplit)
    return (
      <div className="changes-line" role="row" data-kind={row.kind} data-cursor={isCursor || undefined}>
        <Number row={left} side="old" onClick={touch} />
        <Number row={right} side="new" onClick={touch} />
        <Sign row={row} />
        <span className="changes-text" role="cell">
          <DiffText text={row.text} language={language} partner={partner?.text ?? null} isOld={row.kind === "removed"} />
        </span>
      </div>
    );
  const isChanged = left !== right;
  return (
    <div className="changes-line" role="row" data-cursor={isCursor || undefined}>
      <Half row={left} side="old" language={language} partner={isChanged ? right : null} onClick={touch} />
      <Half row={right} side="new" language={language} partner={isChanged ? left : null} onClick={touch} />
    </div>
  );
});

interface HalfProps {
  readonly row: DiffRow | null;
  readonly side: "old" | "new";
  readonly language: string;
  readonly partner: DiffRow | null;
  readonly onClick: () => void;
}

function Half({ row, side, language, partner, onClick }: HalfProps) {
  if (!row) return <span className="changes-void" role="cell" />;
  return (
    <>
      <Number row={row} side={side} onClick={onClick} kind={row.kind} />
      <Sign row={row} />
      <span className="changes-text" role="cell" data-kind={row.kind}>
        <DiffText text={row.text} language={language} partner={partner?.text ?? null} isOld={side === "old"} />
      </span>
    </>
  );
}

function Number({ row, side, onClick, kind }: { row: DiffRow | null; side: "old" | "new"; onClick: () => void; kind?: string }) {
  return (
    <span className="changes-number" role="cell" data-kind={kind} data-side={side} onClick={onClick}>
      {row?.[side] ?? ""}
    </span>
  );
}

const SIGNS = { same: ["", ""], added: ["+", "added "], removed: ["−", "removed "], place: ["", ""] } as const;

function Sign({ row }: { row: DiffRow }) {
  const [sign, word] = SIGNS[row.kind];
  return (
    <span className="changes-sign" role="cell" data-kind={row.kind}>
      <span aria-hidden="true">{sign}</span>
      {word && <span className="unseen">{word}</span>}
    </span>
  );
}

function Place({ row, onExpand }: { row: DiffRow; onExpand: (() => void) | null }) {
  const skipped = row.skipped ?? 0;
  return (
    <div className="changes-place" role="row">
      <span role="cell">
        {[skipped ? `${skipped} unchanged ${skipped === 1 ? "line" : "lines"}` : "", row.text, !skipped && !row.text && row.new ? `Line ${row.new}` : ""].filter(Boolean).join(" · ")}
        {skipped > 0 && onExpand && (
          <button type="button" className="quiet small" onClick={onExpand}>
            Show
          </button>
        )}
      </span>
    </div>
  );
}
