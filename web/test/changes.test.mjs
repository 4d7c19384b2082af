// The parts of a review that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { changeStarts, effectOf, noteText, splitLines, unifiedLines, wordMarks } from "./dist/subject.js";

const row = (kind, text, over = {}) => ({ kind, text, ...over });
const cut = (text, ranges) => ranges.map(({ start, end }) => text.slice(start, end));

test("the words that differ are marked", () => {
  const [before, after] = ["  return Math.round(value * 100) / 100", "  return Math.trunc(value * 100 + 0.5) / 100"];
  const marks = wordMarks(before, after);
  assert.deepEqual(cut(before, marks.old), ["round"]);
  assert.deepEqual(cut(after, marks.new).map((one) => one.trim()), ["trunc", "+ 0.5"]);
});

test("lines that have nothing in common, or are very long, have no marks", () => {
  assert.deepEqual(wordMarks("one two three", "quite another line"), { old: [], new: [] });
  assert.deepEqual(wordMarks("a ".repeat(2_000), "b ".repeat(2_000)), { old: [], new: [] });
});

test("a line stands beside the one that is most like it", () => {
  const rows = [row("same", "a"), row("removed", "const due = goods + shipping"), row("added", "const gifts = apply(cart)"), row("added", "const due = goods + shipping - gifts"), row("same", "b")];
  assert.deepEqual(
    splitLines(rows).map(({ left, right }) => [left?.text ?? null, right?.text ?? null]),
    [
      ["a", "a"],
      [null, "const gifts = apply(cart)"],
      ["const due = goods + shipping", "const due = goods + shipping - gifts"],
      ["b", "b"],
    ],
  );
  const unified = unifiedLines(rows);
  assert.deepEqual(unified.map(({ left, right }) => (right ?? left).text), rows.map(({ text }) => text));
  assert.equal(unified[1].partner.text, "const due = goods + shipping - gifts");
  assert.deepEqual(changeStarts(unified), [1]);
});

test("every row is shown once, on either side", () => {
  const kinds = ["same", "added", "removed", "place"];
  for (let seed = 1; seed < 200; seed++) {
    let state = seed;
    const next = (limit) => (state = (state * 48_271) % 2_147_483_647) % limit;
    const rows = Array.from({ length: 1 + next(30) }, (_, index) => row(kinds[next(4)], `line ${next(5)} ${index}`));
    const shown = (lines) => lines.flatMap(({ place, left, right }) => (place ? [place] : left === right ? [left] : [left, right].filter(Boolean)));
    for (const lines of [unifiedLines(rows), splitLines(rows)]) assert.deepEqual(new Set(shown(lines)), new Set(rows));
  }
});

test("a note names the file, the line and what stands there", () => {
  assert.equal(noteText("a.ts", 4, "  let x = 1", "Why?"), "a.ts:4\n> let x = 1\nWhy?\n");
});

test("a revert says what goes and what stays", () => {
  const file = { path: "a", reason: "", undoneLines: 16, kept: [{ first: 52, last: 54 }], digest: "" };
  assert.equal(effectOf({ ...file, action: "change" }), "The 16 lines changed here go back. Other changes, in lines 52–54, are kept.");
  assert.equal(effectOf({ ...file, action: "refuse", reason: "the same lines were changed since" }), "Cannot be reverted: the same lines were changed since.");
});
