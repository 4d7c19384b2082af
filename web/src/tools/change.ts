/**
 * The change that a call makes, from its arguments.
 *
 * It is independent of the agent: arguments are recognised by their names, which differ little between agents.
 */

import type { HarnessToolCall, JSONValue } from "../../client/src/index.js";
import { inputOf } from "./summary.js";
import { isPatch, lineDiff, patchLines, withoutDistantLines, type DiffLine } from "../text/line_diff.js";

type Arguments = { readonly [key: string]: JSONValue };

const BEFORE = ["old_string", "old_str", "oldText", "oldString", "old_text", "search", "before", "original"] as const;
const AFTER = ["new_string", "new_str", "newText", "newString", "new_text", "replace", "after", "replacement"] as const;
const WHOLE = ["content", "file_text", "contents", "text", "code_edit", "new_content", "fileText"] as const;
const PATCHES = ["patch", "diff", "input", "patchText", "changes", "command", "unified_diff", "unifiedDiff"] as const;

export function changeOf(call: HarnessToolCall): readonly DiffLine[] {
  const input = inputOf(call);
  const fromInput = typeof input === "string" ? patchOf(input) : isArguments(input) ? changeIn(input) : [];
  return fromInput.length ? fromInput : patchOf(call.output ?? "");
}

function changeIn(input: Arguments): readonly DiffLine[] {
  const replaced = replacementIn(input);
  if (replaced.length) return replaced;
  const edits = Object.values(input).find((value) => Array.isArray(value) && value.some((item) => isArguments(item)));
  if (Array.isArray(edits)) {
    const lines = edits.flatMap((edit) => (isArguments(edit) ? [...changeIn(edit), { kind: "place", text: "" } as const] : []));
    if (lines.some((line) => line.kind !== "place")) return lines.slice(0, -1);
  }
  for (const key of PATCHES) {
    const lines = patchOf(input[key]);
    if (lines.length) return lines;
  }
  const whole = firstText(input, WHOLE);
  return whole === undefined ? [] : lineDiff("", whole);
}

function replacementIn(input: Arguments): readonly DiffLine[] {
  const before = firstText(input, BEFORE);
  const after = firstText(input, AFTER);
  if (before === undefined && after === undefined) return [];
  return withoutDistantLines(lineDiff(before ?? "", after ?? ""));
}

function patchOf(value: JSONValue | undefined): readonly DiffLine[] {
  return typeof value === "string" && isPatch(value) ? patchLines(value) : [];
}

function firstText(input: Arguments, keys: readonly string[]): string | undefined {
  const key = keys.find((name) => typeof input[name] === "string");
  return key === undefined ? undefined : (input[key] as string);
}

function isArguments(value: JSONValue): value is Arguments {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
