/**
 * What one block of a text defines for others: addresses of links and footnotes.
 *
 * Blocks are parsed one by one, so each is given what it refers to. A line that only looks like the address of a link,
 * since nothing refers to it, is text: nothing that was written is left out.
 */

import type { Block } from "./blocks.js";

export interface References {
  readonly links: readonly { readonly label: string; readonly line: string }[];
  /** The labels of the footnotes. */
  readonly notes: readonly string[];
}

const LINK = /^ {0,3}\[(?!\^)([^\]\n]+)\]:[ \t]*\S.*$/gm;
/** In a quotation or a list such a line would vanish unseen. */
const NESTED = /^((?:[ \t]*(?:>|[-*+]|\d{1,9}[.)]))+[ \t]*)\[(?=[^\]\n]+\]:)/gm;
const NONE: References = { links: [], notes: [] };

export function referencesIn(blocks: readonly Block[]): References {
  const notes = blocks.flatMap(({ note }) => (note ? [note.label] : []));
  const links = blocks.flatMap(({ text, code }) =>
    code || !text.includes("]:") ? [] : [...text.matchAll(LINK)].map(([line, label]) => ({ label: label!, line })),
  );
  if (!links.length) return notes.length ? { links, notes } : NONE;
  const whole = blocks.map(({ text }) => text).join("\n");
  return { links: links.filter(({ label }) => isUsed(label, whole)), notes };
}

/** The block's text as it can be parsed alone. */
export function completed(text: string, { links }: References): string {
  const own = text.includes("]:") ? new Set([...text.matchAll(LINK)].map(([, label]) => label!)) : null;
  const known = new Set(links.map(({ label }) => label));
  const kept = own ? text.replace(NESTED, "$1\\[").replace(LINK, (line, label: string) => (known.has(label) ? line : line.replace("[", "\\["))) : text;
  const needed = links.filter(({ label }) => !own?.has(label) && isUsed(label, text));
  return needed.length ? `${kept}\n\n${needed.map(({ line }) => line).join("\n")}` : kept;
}

function isUsed(label: string, text: string): boolean {
  const wanted = `[${label.toLowerCase()}]`;
  const searched = text.toLowerCase();
  for (let at = searched.indexOf(wanted); at >= 0; at = searched.indexOf(wanted, at + 1))
    if (searched[at + wanted.length] !== ":") return true;
  return false;
}
