/**
 * A growing markdown text in blocks that are done and one that still grows, so that only the latter is parsed again.
 *
 * A block ends at a blank line outside a code fence, unless what follows still belongs to it (is indented). A long list
 * without blank lines ends before one of its items. Blocks that were found stay the same strings while the text grows.
 */

export interface Block {
  readonly text: string;
  /** Where it begins in the whole text: its stable key. */
  readonly start: number;
  /** Set when the whole block is one fenced piece of code. */
  readonly code?: { readonly language: string; readonly source: string; readonly closed: boolean };
  /** Set when it is a footnote. */
  readonly note?: { readonly label: string; readonly body: string };
}

const NOTE = /^ {0,3}\[\^([^\]\s]+)\]:[ \t]*/;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n]*)$/;
const LIST_ITEM = /^(?:[-*+]|\d{1,9}[.)])\s/;
const LONG_LIST = 2_000;

export class BlockSplitter {
  #text = "";
  #blocks: readonly Block[] = [];

  split(text: string): readonly Block[] {
    if (text === this.#text) return this.#blocks;
    const grown = this.#text !== "" && text.startsWith(this.#text);
    const kept = grown ? this.#blocks.slice(0, -1) : [];
    const from = grown ? (this.#blocks.at(-1)?.start ?? 0) : 0;
    this.#text = text;
    this.#blocks = [...kept, ...splitFrom(text, from)];
    return this.#blocks;
  }
}

function splitFrom(text: string, from: number): Block[] {
  const blocks: Block[] = [];
  let start = from;
  let fence = "";
  let isList = false;
  let blankBefore = true;
  const close = (end: number) => {
    const piece = text.slice(start, end);
    if (piece.trim()) blocks.push(block(piece, start));
    start = end;
  };
  for (let position = from; position < text.length; ) {
    const newline = text.indexOf("\n", position);
    const end = newline < 0 ? text.length : newline + 1;
    const line = text.slice(position, newline < 0 ? end : newline).replace(/\r$/, "");
    const mark = FENCE.exec(line);
    if (fence) {
      if (mark?.[1]?.startsWith(fence) && !mark[2]?.trim()) {
        fence = "";
        if (!isList) close(end);
        blankBefore = true;
      }
    } else if (mark && !(mark[1]?.startsWith("`") && mark[2]?.includes("`"))) {
      if (!isList || (blankBefore && !/^\s/.test(line))) {
        close(position);
        isList = false;
      }
      fence = mark[1] ?? "";
    } else if (!line.trim()) {
      blankBefore = true;
      position = end;
      continue;
    } else {
      const isItem = LIST_ITEM.test(line);
      const isNote = NOTE.test(line);
      const isEnd = isNote || (blankBefore ? !/^\s/.test(line) : isList && isItem && position - start > LONG_LIST);
      if (isEnd && position > start) close(position);
      if (position === start) isList = isItem;
    }
    blankBefore = false;
    position = end;
  }
  close(text.length);
  return blocks;
}

function block(text: string, start: number): Block {
  const note = NOTE.exec(text);
  if (note) return { text, start, note: { label: note[1]!, body: text.slice(note[0].length).replace(/^(?: {4}|\t)/gm, "") } };
  const newline = text.indexOf("\n");
  const mark = FENCE.exec(newline < 0 ? text : text.slice(0, newline).replace(/\r$/, ""));
  if (!mark || (mark[1]?.startsWith("`") && mark[2]?.includes("`"))) return { text, start };
  const body = newline < 0 ? "" : text.slice(newline + 1);
  const closing = new RegExp(`(?:^|\\n) {0,3}${mark[1]}${mark[1]?.[0]}*[ \\t\\r]*\\n*$`).exec(body);
  const language = mark[2]?.trim().split(/\s/)[0] ?? "";
  return { text, start, code: { language, source: closing ? body.slice(0, closing.index) : body, closed: !!closing } };
}
