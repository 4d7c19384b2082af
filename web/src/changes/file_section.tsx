/** One file: its name and what can be done with it, then its diff, which is loaded when it comes near the screen. */

import { useEffect, useMemo, useRef, useState, type RefObject } from "react";
import { EditorLink } from "../files/editor.js";
import { Picture } from "../files/picture.js";
import { fileAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { ChangeLetter, DeltaOf, FilePath } from "./amounts.js";
import { changesApi, type ChangedFile, type DiffRow, type FileDiff } from "./changes_api.js";
import { changeStarts, splitLines, unifiedLines, type DiffLine } from "./diff_lines.js";
import { DiffTable } from "./diff_table.js";
import { FileMarks } from "./file_list.js";
import { LineNote } from "./line_note.js";
import { RevertNotice, wordsOf, type RevertTarget } from "./revert_notice.js";
import type { Seen } from "./stored.js";

const CONTEXT = 3;
const ALL_LINES = 1_000_000;

/** A key for the file that is looked at; `count` distinguishes one press from the next. */
export interface FileWish {
  readonly kind: "next" | "previous" | "note" | "revert" | "line";
  readonly count: number;
  readonly line?: number;
}

export interface FileSectionProps {
  readonly sessionId: string;
  /** The folder of the conversation. */
  readonly root: string;
  readonly scope: string;
  readonly file: ChangedFile;
  readonly isSplit: boolean;
  readonly isWrapped: boolean;
  readonly ignoresSpaces: boolean;
  readonly isCurrent: boolean;
  readonly seen: Seen;
  readonly scroller: RefObject<HTMLElement | null>;
  readonly wish: FileWish | null;
  readonly onCurrent: () => void;
  readonly onReverted: (undoId: string) => void;
  readonly onNote: ((text: string) => void) | null;
}

export function FileSection(props: FileSectionProps) {
  const { sessionId, scope, file, isSplit, isWrapped, seen, scroller, wish, isCurrent } = props;
  const section = useRef<HTMLElement>(null);
  const [isFolded, setFolded] = useState(file.isGenerated);
  const [isFull, setFull] = useState(false);
  const [target, setTarget] = useState<RevertTarget | null>(null);
  const [cursor, setCursor] = useState(-1);
  const [asked, setAsked] = useState(0);
  const [isNoting, setNoting] = useState(false);
  const isNear = useIsNear(section, scroller);
  const loaded = useDiff(props, isNear && !isFolded, isFull ? ALL_LINES : CONTEXT);
  const lines = useMemo(() => (isSplit ? splitLines : unifiedLines)(loaded.rows), [isSplit, loaded.rows]);
  const startRevert = () => setTarget({ scope, paths: [file.path], name: "file" });
  const goTo = (index: number) => {
    setCursor(index);
    setAsked((count) => count + 1);
  };
  useEffect(() => {
    if (!wish || !isCurrent) return;
    if (wish.kind === "revert") return file.canRevert ? startRevert() : undefined;
    if (wish.kind === "note") {
      if (cursor < 0) setCursor(changeStarts(lines)[0] ?? -1);
      return setNoting(true);
    }
    const index = wish.kind === "line" ? lines.findIndex(({ right }) => right?.new === wish.line) : nextChange(lines, cursor, wish.kind === "next");
    if (index >= 0) goTo(index);
  }, [wish?.count, wish?.kind === "line" ? lines.length : 0]);
  const note = isNoting && props.onNote && cursor >= 0 && (
    <LineNote path={file.path} line={lines[cursor]} onAdd={(text) => (props.onNote!(text), setNoting(false))} onClose={() => setNoting(false)} />
  );
  return (
    <section ref={section} className="changes-section" data-path={file.path} aria-label={file.path}>
      <header className="changes-file-head">
        <button type="button" className="quiet changes-fold" aria-expanded={!isFolded} onClick={() => setFolded(!isFolded)} aria-label={isFolded ? "Unfold" : "Fold"}>
          <Icon name="chevron" />
        </button>
        <ChangeLetter file={file} />
        <FilePath path={inOneLine(file.oldPath ? `${file.oldPath} → ${file.path}` : file.path, "code")} />
        <DeltaOf file={file} />
        <FileMarks file={file} hasTime />
        <span className="changes-push changes-row">
          <OpenPlace {...props} lines={lines} cursor={cursor} />
          <CopyPlace file={file} line={lines[cursor]} />
          <button type="button" className="button small" disabled={!file.canRevert} title={file.canRevert ? "Take these lines back (r)" : file.whyNot} onClick={startRevert}>
            <Icon name="undo" /> Revert file…
          </button>
          <label className="changes-seen">
            <input type="checkbox" checked={seen.has(file)} onChange={() => seen.toggle(file)} />
            Seen
          </label>
        </span>
      </header>
      {target && (
        <RevertNotice sessionId={sessionId} target={target} onCancel={() => setTarget(null)} onDone={(undoId) => (setTarget(null), props.onReverted(undoId))} />
      )}
      {isFolded ? (
        <p className="changes-note faint">
          {file.isGenerated ? "Written by a program. " : ""}
          <button type="button" className="quiet small" onClick={() => setFolded(false)}>
            Show
          </button>
        </p>
      ) : (
        <div onMouseDown={props.onCurrent}>
          {loaded.note && !loaded.pictures && <p className="changes-note faint">{loaded.note}</p>}
          {loaded.pictures && <Pictures pictures={loaded.pictures} path={file.path} />}
          {loaded.isLoading && <p className="changes-note faint" style={{ height: loaded.rows.length ? undefined : heightOf(file) }}>Loading…</p>}
          {lines.length > 0 && (
            <DiffTable
              path={file.path}
              lines={lines}
              isSplit={isSplit}
              isWrapped={isWrapped}
              scroller={scroller}
              cursor={isCurrent ? cursor : -1}
              asked={asked}
              onLine={(index) => (setCursor(index), setNoting(!!props.onNote))}
              onExpand={isFull ? null : () => setFull(true)}
              below={note ? { index: cursor, node: note } : null}
            />
          )}
        </div>
      )}
    </section>
  );
}

function nextChange(lines: readonly DiffLine[], cursor: number, isForward: boolean): number {
  const starts = changeStarts(lines);
  return (isForward ? starts.find((start) => start > cursor) : starts.findLast((start) => start < cursor)) ?? -1;
}

/** About as high as it will be, so that what is below stays where it is. */
const heightOf = ({ added, removed }: ChangedFile) => Math.min(20_000, (added + removed + 8) * 20);

interface LoadedDiff {
  readonly rows: readonly DiffRow[];
  readonly note: string;
  readonly pictures: FileDiff["pictures"];
  readonly isLoading: boolean;
}

const NOTHING: LoadedDiff = { rows: [], note: "", pictures: null, isLoading: true };

/** The rows come in pages; the first are shown while the others are still on their way. */
function useDiff({ sessionId, scope, file, ignoresSpaces }: FileSectionProps, isWanted: boolean, context: number): LoadedDiff {
  const [loaded, setLoaded] = useState<LoadedDiff>(NOTHING);
  useEffect(() => {
    if (!isWanted) return undefined;
    const abort = new AbortController();
    const load = async () => {
      let rows: readonly DiffRow[] = [];
      for (;;) {
        const page = await changesApi.file(sessionId, { scope, path: file.path, context, ignoresSpaces }, rows.length, abort.signal);
        rows = rows.length ? [...rows, ...page.rows] : page.rows;
        const isLoading = rows.length < page.total && page.rows.length > 0;
        setLoaded({ rows, note: page.note, pictures: page.pictures, isLoading });
        if (!isLoading) return;
      }
    };
    load().catch((error: unknown) => !abort.signal.aborted && setLoaded({ ...NOTHING, note: wordsOf(error), isLoading: false }));
    return () => abort.abort();
  }, [sessionId, scope, file.path, file.digest, file.added, file.removed, isWanted, context, ignoresSpaces]);
  return loaded;
}

/** Once near the screen, it stays loaded. */
function useIsNear(element: RefObject<HTMLElement | null>, scroller: RefObject<HTMLElement | null>): boolean {
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    if (isNear || !element.current) return undefined;
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setNear(true), {
      root: scroller.current,
      rootMargin: "800px",
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [isNear, element, scroller]);
  return isNear;
}

interface OpenPlaceProps extends FileSectionProps {
  readonly lines: readonly DiffLine[];
  readonly cursor: number;
}

/** The file as it is now, at the line that is looked at, or at its first change. */
function OpenPlace({ sessionId, root, file, lines, cursor }: OpenPlaceProps) {
  const at = lines[cursor] ?? lines[changeStarts(lines)[0] ?? -1];
  const line = at?.right?.new ?? lines.find(({ right }) => right?.new)?.right?.new ?? 1;
  if (!root || file.change === "D" || file.isReverted || file.path.startsWith("/")) return null;
  return (
    <>
      <EditorLink root={root} path={file.path} line={line} />
      <a className="quiet small" href={fileAddress(sessionId, file.path, line)} title={`Show the whole file at line ${line}`}>
        <Icon name="read" /> <span className="changes-wide-only">Open file</span>
      </a>
    </>
  );
}

function CopyPlace({ file, line }: { file: ChangedFile; line: DiffLine | undefined }) {
  const [isCopied, setCopied] = useState(false);
  const number = line?.right?.new ?? line?.left?.old;
  const text = number ? `${file.path}:${number}` : file.path;
  const copy = () => void navigator.clipboard?.writeText(text).then(() => setCopied(true), () => undefined);
  return (
    <button type="button" className="quiet small changes-wide-only" onClick={copy} onBlur={() => setCopied(false)} title={`Copy ${text}`}>
      <Icon name={isCopied ? "check" : "copy"} /> {isCopied ? "Copied" : "Copy path"}
    </button>
  );
}

function Pictures({ pictures, path }: { pictures: NonNullable<FileDiff["pictures"]>; path: string }) {
  const sides = [
    ["Before", pictures.before],
    ["After", pictures.after],
  ] as const;
  return (
    <div className="changes-pictures">
      {sides.map(([name, address]) => {
        const found = /^data:([^;]+);base64,(.*)$/s.exec(address);
        const none = <span className="faint">none, or not known</span>;
        return (
          <figure key={name}>
            <figcaption className="faint">{name}</figcaption>
            {found ? <Picture data={found[2]!} mediaType={found[1]!} name={`${name}: ${path}`} instead={none} /> : none}
          </figure>
        );
      })}
    </div>
  );
}
