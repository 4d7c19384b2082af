/**
 * Characters that cannot be seen, or that let a text be read as another one: they are shown instead of obeyed.
 *
 * The list is that of the terminal (`rendering/escapes.py`); a test compares them.
 */

import table from "./unseen_characters.json" with { type: "json" };

/** `code`: what is run, written or allowed, where nothing stays that is not seen as what it is. `speech`: messages. */
export type TextKind = "code" | "speech";

export interface Stretch {
  readonly text: string;
  /** The mark for something that would not be seen; empty: it is the text itself. */
  readonly mark: string;
}

const classOf = (ranges: readonly string[]) =>
  ranges.map((range) => range.split("-").map((code) => `\\u{${code}}`).join("-")).join("");
const FORBIDDEN = classOf(table.forbidden);
const JOINING = classOf(table.joining);
const EVERYTHING = `[${FORBIDDEN}${JOINING}${classOf(table.blank)}]`;
/** Words of many languages and emoji are joined by invisible characters; behind a letter of ours they join nothing. */
const IN_SPEECH = `[${FORBIDDEN}]|(?<![^\\x00-\\x7f])[${JOINING}](?!\\u20e3)`;
/** So many empty lines in a row, or blanks inside a line or before it, would push what follows out of sight. */
const EMPTY_RUNS = `(?<=\\n)[ \\t]*(?:\\n[ \\t]*){2,}(?=\\n)|(?<=[^\\s])[ \\t]{12,}(?=\\S)|(?<=\\n|^)[ \\t]{60,}(?=\\S)`;

/** So many marks on one letter would cover the lines around it. */
const HEAP = "[\\u0300-\\u036f\\u0483-\\u0489\\u1ab0-\\u1aff\\u1dc0-\\u1dff\\u20d0-\\u20f0\\ufe20-\\ufe2f]{4,}";

const PATTERNS: { readonly [Kind in TextKind]: RegExp } = {
  code: new RegExp(`${EMPTY_RUNS}|${HEAP}|${EVERYTHING}`, "gu"),
  speech: new RegExp(`${HEAP}|${IN_SPEECH}`, "gu"),
};

const ASCII = /^[\x20-\x7e]*$/;
const RUN = /\S {12}|^ {60}/;

/** Most lines are: nothing in them can be misread, which is quickly seen. */
export function isPlain(text: string): boolean {
  return ASCII.test(text) && !RUN.test(text);
}

/** The text in stretches, so that a mark differs from the same letters in the text itself. */
export function stretchesOf(text: string, kind: TextKind): readonly Stretch[] {
  if (isPlain(text)) return [{ text, mark: "" }];
  const stretches: Stretch[] = [];
  let from = 0;
  for (const found of text.matchAll(PATTERNS[kind])) {
    if (found[0] === "\r" && kind === "speech" && text[found.index + 1] === "\n") continue;
    if (found.index > from) stretches.push({ text: text.slice(from, found.index), mark: "" });
    stretches.push({ text: found[0], mark: markOf(found[0]) });
    from = found.index + found[0].length;
  }
  if (from < text.length || !stretches.length) stretches.push({ text: text.slice(from), mark: "" });
  return stretches;
}

/** The same as one text, for places that take no more: names, labels, titles. */
export function revealed(text: string, kind: TextKind = "code"): string {
  return stretchesOf(text, kind)
    .map(({ text: plain, mark }) => mark || plain)
    .join("");
}

/** In one line. */
export function inOneLine(text: string, kind: TextKind = "speech"): string {
  return revealed(text.replace(/[\t\n ]+/g, " "), kind);
}

function markOf(found: string): string {
  const code = found.codePointAt(0)!;
  if (found.includes("\n")) return `⟨${found.split("\n").length} empty lines⟩`;
  if (found.length >= 4 && /^\p{M}/u.test(found)) return `⟨${found.length} combining marks⟩`;
  if (found.length > 2 && /^[ \t]/.test(found)) return `⟨${found.length} blanks⟩`;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "␡";
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}
