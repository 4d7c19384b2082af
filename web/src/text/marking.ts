/** What is done to parsed markdown before it is shown: unseen characters, marks of footnotes, names of boxes to tick. */

import { stretchesOf } from "./unseen.js";

interface Node {
  readonly type: string;
  readonly value?: string;
  readonly tagName?: string;
  properties?: { [name: string]: unknown };
  children?: Node[];
}

export function marking({ notes }: { readonly notes: readonly string[] }): (tree: Node) => void {
  return (tree) => mark(tree, new Set(notes));
}

function mark(node: Node, notes: ReadonlySet<string>): void {
  if (node.tagName === "code") return; // shown by a component of its own
  if (node.tagName === "li") nameBox(node);
  node.children = node.children?.flatMap((child) => {
    if (child.type === "text") return marked(child.value ?? "", notes);
    mark(child, notes);
    return [child];
  });
}

function marked(text: string, notes: ReadonlySet<string>): Node[] {
  return stretchesOf(text, "speech").flatMap(({ text: plain, mark: shown }) =>
    shown ? [element("span", "unseen-mark", shown)] : notes.size ? withNotes(plain, notes) : [{ type: "text", value: plain }],
  );
}

function withNotes(text: string, notes: ReadonlySet<string>): Node[] {
  return text.split(/(\[\^[^\]\s]+\])/).map((piece) => {
    const label = /^\[\^(.+)\]$/.exec(piece)?.[1];
    return label && notes.has(label) ? element("sup", "note-mark", label) : { type: "text", value: piece };
  });
}

function element(tagName: string, className: string, text: string): Node {
  return { type: "element", tagName, properties: { className: [className] }, children: [{ type: "text", value: text }] };
}

const NAME_MAX = 200;

/** The label of a checkbox is the text beside it. */
function nameBox(item: Node): void {
  const place = item.children?.find((child) => child.tagName === "p") ?? item;
  const box = place.children?.find((child) => child.tagName === "input");
  if (box) box.properties = { ...box.properties, ariaLabel: textOf(item).trim().slice(0, NAME_MAX) || "task" };
}

function textOf(node: Node): string {
  return node.value ?? (node.children ?? []).map(textOf).join("");
}
