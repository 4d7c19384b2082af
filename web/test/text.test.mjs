// The page's own text work: blocks of markdown, diffs, colours, amounts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, BlockSplitter, changeOf, coloured, cost, count, duration, errorToShow, isPatch, lineDiff, roundMoney, patchLines, summaryOf, withoutDistantLines } from "./dist/subject.js";

const TEXT = `# Title

First paragraph
goes on.

- one

  still one
- two

1. a

2. b

\`\`\`python
def f():

    return 1
\`\`\`
After the fence.

~~~
open
`;

const blocks = (text) => new BlockSplitter().split(text);

test("blocks put together are the text", () => {
  assert.equal(blocks(TEXT).map((block) => block.text).join("").trim(), TEXT.trim());
});

test("a block ends at a blank line, but not inside a fence nor before what is indented", () => {
  const found = blocks(TEXT).map((block) => block.text.trim().split("\n")[0]);
  assert.deepEqual(found, ["# Title", "First paragraph", "- one", "1. a", "2. b", "```python", "After the fence.", "~~~"]);
});

test("a fence is code, with its language, closed or still open", () => {
  const code = blocks(TEXT).flatMap((block) => block.code ?? []);
  assert.deepEqual(code, [
    { language: "python", source: "def f():\n\n    return 1", closed: true },
    { language: "", source: "open\n", closed: false },
  ]);
});

test("a text that grows letter by letter ends with the same blocks as at once, and keeps those that were done", () => {
  const splitter = new BlockSplitter();
  let before = [];
  for (let length = 1; length <= TEXT.length; length++) {
    const now = splitter.split(TEXT.slice(0, length));
    for (let index = 0; index < before.length - 1; index++) assert.equal(now[index], before[index]);
    before = now;
  }
  assert.deepEqual(before, blocks(TEXT));
});

test("a text that is replaced is split anew", () => {
  const splitter = new BlockSplitter();
  splitter.split("one\n\ntwo");
  assert.deepEqual(splitter.split("three").map((block) => block.text), ["three"]);
});

test("a long tight list is cut before one of its items", () => {
  const list = Array.from({ length: 500 }, (_, index) => `- item ${index}\n`).join("");
  const found = blocks(list);
  assert.ok(found.length > 2);
  assert.ok(found.every((block) => block.text.startsWith("- item")));
});

test("a diff applied to the text before gives the text after", () => {
  const before = "a\nb\nc\nd\n";
  const after = "a\nx\nc\nd\ne\n";
  const lines = lineDiff(before, after);
  assert.deepEqual(lines.filter((line) => line.kind !== "added").map((line) => line.text), ["a", "b", "c", "d"]);
  assert.deepEqual(lines.filter((line) => line.kind !== "removed").map((line) => line.text), ["a", "x", "c", "d", "e"]);
});

test("lines far from any change are left out and counted", () => {
  const many = Array.from({ length: 50 }, (_, index) => `line ${index}`).join("\n");
  const lines = withoutDistantLines(lineDiff(many, many.replace("line 25\n", "changed\n")));
  assert.equal(lines[0].text, "22 unchanged lines");
  assert.equal(lines.length, 9);
});

test("patches of both kinds are known", () => {
  assert.ok(isPatch("@@ -1 +1 @@\n-a\n+b\n"));
  assert.ok(isPatch("*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\n"));
  assert.ok(!isPatch("- a list\n- of things\n"));
  assert.deepEqual(patchLines("*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\n"), [
    { kind: "place", text: "Add File: a.py" },
    { kind: "added", text: "x" },
  ]);
});

test("what a call changes is read from its arguments, whatever they are called", () => {
  const kinds = (input, output = "") => changeOf({ id: "", name: "", status: "complete", input, output }).map((line) => line.kind).join(" ");
  assert.equal(kinds({ old_string: "a", new_string: "b" }), "removed added");
  assert.equal(kinds({ oldText: "a", newText: "a\nb" }), "same added");
  assert.equal(kinds({ file_path: "f", content: "a\nb\n" }), "added added");
  assert.equal(kinds({ edits: [{ oldString: "a", newString: "b" }, { oldString: "c", newString: "" }] }), "removed added place removed");
  assert.equal(kinds("*** Begin Patch\n*** Update File: a\n@@\n-a\n+b\n*** End Patch"), "place place removed added");
  assert.equal(kinds({ path: "x" }, "@@ -1 +1 @@\n-a\n+b"), "place removed added");
  assert.equal(kinds(null), "");
});

test("a call is summed up by its operation, and by its name where it has none", () => {
  const call = (operations, name = "any") => summaryOf({ id: "", name, status: "complete", input: { a: 1 }, operations });
  assert.equal(call([{ kind: "read", path: "a.py", start_line: 3, end_line: 9 }]).subject, "a.py:3–9");
  assert.equal(call([{ kind: "write", path: "a.py", change: "create" }]).verb, "Create");
  assert.deepEqual([call([], "tool").verb, call([], "tool").subject], ["tool", "a: 1"]);
});

test("colouring changes no letter", () => {
  const source = 'def f(x): # why\n    return "a" + str(1.5) /* no */\n';
  for (const language of ["python", "js", "sql", "html", "diff"]) assert.equal(coloured(source, language).map((piece) => piece.text).join(""), source);
});

test("amounts are short", () => {
  assert.deepEqual([roundMoney(0), roundMoney(0.004), roundMoney(0.0431), roundMoney(12.34), roundMoney(123.4)], ["$0", "<$0.01", "$0.04", "$12.3", "$123"]);
  assert.deepEqual([cost(0), cost(0.0004), cost(0.0094), cost(0.31), cost(0.31, false), cost(null)], ["$0.00", "<$0.001", "$0.009", "$0.31", "≥ $0.31", "–"]);
  assert.deepEqual([count(999), count(1_234), count(43_000), count(1_250_000)], ["999", "1.2k", "43k", "1.3M"]);
  assert.deepEqual([duration(40), duration(2_345), duration(61_000), duration(3_700_000)], ["40 ms", "2.3 s", "1 min 1 s", "1 h 2 min"]);
  assert.equal(ago(0, 59_000), "now");
  assert.equal(ago(0, 3 * 3_600_000), "3 h");
});

test("an error is shown once: below the conversation only where the last answer does not say it", () => {
  const said = { role: "assistant", parts: [{ type: "notice", level: "error", text: "no key", code: "" }] };
  const state = (messages, error = "no key", status = "error") => ({ status, error, messages });
  assert.equal(errorToShow(state([said])), null);
  assert.equal(errorToShow(state([said, { role: "user", parts: [] }])), null);
  assert.equal(errorToShow(state([said], "another")), "another");
  assert.equal(errorToShow(state([said, { role: "assistant", parts: [] }])), "no key");
  assert.equal(errorToShow(state([{ role: "assistant" }])), "no key");
  assert.equal(errorToShow(state([], "no key", "idle")), null);
});
