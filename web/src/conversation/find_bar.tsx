import { useDeferredValue, useEffect, useMemo, useRef, useState, type KeyboardEvent, type RefObject } from "react";
import { Icon } from "../shell/icon.js";
import { Finder, type Match } from "./find.js";
import { clearFound, markFound } from "./find_marks.js";
import type { Item } from "./items.js";

interface FindBarProps {
  readonly items: readonly Item[];
  readonly column: RefObject<HTMLElement | null>;
  readonly onShow: (index: number) => void;
  readonly onClose: () => void;
}

/** It looks through everything; the browser's own would only see what is drawn. */
export function FindBar({ items, column, onShow, onClose }: FindBarProps) {
  const [finder] = useState(() => new Finder());
  const [query, setQuery] = useState("");
  const [chosen, setChosen] = useState<number | null>(null);
  const wanted = useDeferredValue(query);
  const matches = useMemo(() => finder.find(items, wanted), [finder, items, wanted]);
  const at = matches.length ? Math.min(chosen ?? matches.length - 1, matches.length - 1) : -1;
  const current = matches[at] ?? null;
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => setChosen(null), [wanted]);
  useMarks(column, wanted, current, onShow);
  const move = (step: number) => matches.length && setChosen((at + step + matches.length) % matches.length);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") move(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className="find" role="search" aria-label="Find in conversation" onKeyDown={onKeyDown}>
      <Icon name="search" />
      <input ref={field} type="text" value={query} autoFocus placeholder="Find in conversation" aria-label="Find in conversation" onChange={(event) => setQuery(event.target.value)} spellCheck={false} />
      <span className="faint find-count" role="status">
        {!wanted.trim() ? "" : matches.length ? `${at + 1} of ${matches.length}` : "Nothing found"}
      </span>
      <button type="button" className="quiet small" onClick={() => move(-1)} disabled={!matches.length} aria-label="Previous" title="Previous (Shift+Enter)">
        <span className="find-up">
          <Icon name="down" />
        </span>
      </button>
      <button type="button" className="quiet small" onClick={() => move(1)} disabled={!matches.length} aria-label="Next" title="Next (Enter)">
        <Icon name="down" />
      </button>
      <button type="button" className="quiet small" onClick={onClose} aria-label="Close" title="Close (Escape)">
        <Icon name="close" />
      </button>
    </div>
  );
}

/** Brings the match into sight, opens what it is folded in, and marks it and all others that are drawn. */
function useMarks(column: RefObject<HTMLElement | null>, query: string, current: Match | null, onShow: (index: number) => void): void {
  const key = current?.key ?? "";
  const occurrence = current?.occurrence ?? 0;
  const index = current?.index ?? -1;
  useEffect(() => {
    if (index >= 0) onShow(index);
    // Only another match is a reason to scroll: that items came before it is none.
  }, [key, occurrence, onShow]);
  useEffect(() => {
    const place = column.current!;
    let frame = 0;
    let hasOpened = false;
    const mark = () => {
      frame = 0;
      const isMarked = markFound(place, query, key ? { key, occurrence } : null);
      if (isMarked || hasOpened || !key) return;
      const folded = entryOf(place, key)?.querySelector<HTMLElement>("[aria-expanded=false]");
      hasOpened = !!folded;
      folded?.click();
    };
    const schedule = () => (frame ||= requestAnimationFrame(mark));
    const observer = new MutationObserver(schedule);
    observer.observe(place, { childList: true, subtree: true, characterData: true });
    schedule();
    return () => {
      observer.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [column, query, key, occurrence]);
  useEffect(() => clearFound, []);
}

function entryOf(column: HTMLElement, key: string): HTMLElement | undefined {
  return [...column.querySelectorAll<HTMLElement>(".entry")].find((entry) => entry.dataset["key"] === key);
}
