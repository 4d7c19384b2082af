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
  const seen = useMemo(() => firstInSight(items, column.current), [wanted]); // where one was when one began to search
  const near = matches.findIndex(({ index }) => index >= seen);
  const at = matches.length ? Math.min(chosen ?? (near < 0 ? matches.length - 1 : near), matches.length - 1) : -1;
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
    let isShown = false;
    const mark = () => {
      frame = 0;
      const found = markFound(place, query, key ? { key, occurrence } : null);
      if (found && !isShown) show(found);
      isShown ||= !!found;
      if (found || hasOpened || !key) return;
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

const MARGIN_PX = 80;

/** The match itself, not only the message that it is in: that may be longer than the screen. */
function show(found: Range): void {
  const { top, bottom } = found.getBoundingClientRect();
  if (top >= MARGIN_PX && bottom <= window.innerHeight - 2 * MARGIN_PX) return;
  found.startContainer.parentElement?.scrollIntoView({ block: "center" });
  // In a block that is longer than the screen, its middle is not the match.
  const left = found.getBoundingClientRect().top - window.innerHeight / 2;
  const scroller = scrollerOf(found.startContainer.parentElement);
  if (scroller && Math.abs(left) > window.innerHeight / 3) scroller.scrollBy({ top: left });
}

function scrollerOf(place: Element | null): Element | null {
  for (let one = place; one; one = one.parentElement) if (one.scrollHeight > one.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(one).overflowY)) return one;
  return null;
}

/** The first item that is on the screen. */
function firstInSight(items: readonly Item[], column: HTMLElement | null): number {
  const entry = [...(column?.querySelectorAll<HTMLElement>(".entry") ?? [])].find((one) => one.getBoundingClientRect().bottom > MARGIN_PX);
  return items.findIndex(({ key }) => key === entry?.dataset["key"]);
}

function entryOf(column: HTMLElement, key: string): HTMLElement | undefined {
  return [...column.querySelectorAll<HTMLElement>(".entry")].find((entry) => entry.dataset["key"] === key);
}
