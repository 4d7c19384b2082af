/** Marks what was found in what is drawn, without changing the elements. */

import { searchable } from "./find.js";

const [ALL, CURRENT] = ["found", "found-now"] as const;

/** `current`: the item that is looked at, and which of its matches. Returns its place; null: it is not drawn. */
export function markFound(column: HTMLElement, query: string, current: { readonly key: string; readonly occurrence: number } | null): Range | null {
  const all: Range[] = [];
  let now: Range | undefined;
  for (const entry of column.querySelectorAll<HTMLElement>(".entry")) {
    const ranges = rangesIn(entry, searchable(query));
    all.push(...ranges);
    if (current && entry.dataset["key"] === current.key) now = ranges[Math.min(current.occurrence, ranges.length - 1)];
  }
  if ("highlights" in CSS) {
    CSS.highlights.set(ALL, new Highlight(...all));
    CSS.highlights.set(CURRENT, new Highlight(...(now ? [now] : [])));
  }
  return now ?? null;
}

export function clearFound(): void {
  if (!("highlights" in CSS)) return;
  CSS.highlights.delete(ALL);
  CSS.highlights.delete(CURRENT);
}

function rangesIn(entry: HTMLElement, query: string): Range[] {
  if (!query) return [];
  const walker = document.createTreeWalker(entry, NodeFilter.SHOW_TEXT);
  const nodes: { readonly node: Text; readonly start: number }[] = [];
  let text = "";
  for (let node = walker.nextNode() as Text | null; node; node = walker.nextNode() as Text | null) {
    nodes.push({ node, start: text.length });
    text += node.data;
  }
  const searched = text.toLowerCase();
  if (searched.length !== text.length) return []; // letters whose small form is longer: places would not fit
  const ranges: Range[] = [];
  const place = (offset: number) => {
    const found = nodes.findLast(({ start }) => start <= offset)!;
    return [found.node, offset - found.start] as const;
  };
  for (let at = searched.indexOf(query); at >= 0; at = searched.indexOf(query, at + query.length)) {
    const range = document.createRange();
    range.setStart(...place(at));
    const [endNode, endOffset] = place(at + query.length - 1);
    range.setEnd(endNode, endOffset + 1);
    ranges.push(range);
  }
  return ranges;
}
