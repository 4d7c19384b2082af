// The parts of a review that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { changeStarts, editorAddress, effectOf, fileOf, isEditorAddress, noteText, splitLines, unifiedLines, pathInside, summaryOf, wordMarks } from "./dist/subject.js";

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

test("an editor is called with the whole path, and nothing in a name becomes a part of the address", () => {
  const place = { root: "/home/me/shop", path: "src/a b#c?d%.ts", line: 12 };
  assert.equal(editorAddress("vscode://file/{path}:{line}", place), "vscode://file/home/me/shop/src/a%20b%23c%3Fd%25.ts:12");
  assert.equal(editorAddress("idea://open?file={path}&line={line}", { ...place, path: "x&line=1$&.ts" }), "idea://open?file=/home/me/shop/x%26line%3D1%24%26.ts&line=12");
  assert.equal(editorAddress("vscode://file/{path}:{line}", { ...place, path: "/home/me/shop/a.ts", line: undefined }), "vscode://file/home/me/shop/a.ts:1");
  for (const path of ["../secret", "/etc/passwd", "src/../../x", "/home/me/shop2/a", "~/x", ""]) assert.equal(editorAddress("vscode://file/{path}:{line}", { ...place, path }), "", path);
  assert.equal(editorAddress("vscode://file/{path}:{line}", { ...place, root: "" }), "");
});

test("what a browser would load or run is no editor", () => {
  for (const address of ["javascript://{path}", "data://x/{path}", "https://example.org/{path}", "file://{path}", "vscode:{path}", "vscode://file/", "JavaScript://{path}", " javascript://{path}"]) assert.equal(isEditorAddress(address), false, address);
  assert.equal(isEditorAddress("nvim-open+x://f?p={path}"), true);
});

test("paths of the folder are shown without it, and lead to the file", () => {
  const call = (operation) => ({ id: "1", name: "t", status: "complete", operations: [operation] });
  const read = { kind: "read", path: "/w/src/a.ts", start_line: 3, end_line: 9 };
  assert.equal(summaryOf(call(read), "/w").subject, "src/a.ts:3–9");
  assert.equal(summaryOf(call(read)).subject, "/w/src/a.ts:3–9");
  assert.equal(summaryOf(call({ kind: "search", query: "x", path: "/w" }), "/w").subject, "x  in .");
  assert.equal(summaryOf(call({ kind: "list", path: "/elsewhere" }), "/w").subject, "/elsewhere");
  assert.deepEqual(fileOf(read, "/w"), { path: "src/a.ts", line: 3 });
  assert.equal(fileOf({ kind: "write", path: "/w/a", change: "delete" }, "/w"), null);
  assert.equal(fileOf({ kind: "read", path: "/etc/passwd" }, "/w"), null);
  assert.equal(pathInside("/", "/etc/hosts"), "etc/hosts");
});

test("a file that was renamed gets its name again", () => {
  const plan = { path: "b.ts", action: "move", movedTo: "a.ts", undoneLines: 0, kept: [] };
  assert.equal(effectOf(plan), "The file is a.ts again.");
  assert.equal(effectOf({ ...plan, undoneLines: 2 }), "The file is a.ts again. The 2 lines changed here go back.");
});
