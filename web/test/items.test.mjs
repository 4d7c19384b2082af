// The conversation as a flat list, what can be found in it, and what completes a prompt.
import assert from "node:assert/strict";
import { test } from "node:test";
import { completedPrompt, Finder, ItemList, textOf, tokenAt } from "./dist/subject.js";

const user = (id, content, over = {}) => ({ id, role: "user", content, status: "complete", createdMs: 1_000, runId: "", parts: [{ type: "text", text: content }], ...over });
const assistant = (id, runId, parts, toolCalls = [], over = {}) => ({ id, role: "assistant", content: "", status: "complete", createdMs: 2_000, runId, parts, toolCalls, ...over });
const text = (content) => ({ type: "text", text: content });
const tool = (callId) => ({ type: "tool", callId });
const read = (id) => ({ id, name: "read", status: "complete", operations: [{ kind: "read", path: `${id}.py` }] });
const bash = (id, over = {}) => ({ id, name: "bash", status: "complete", output: "passed\n", operations: [{ kind: "command", command: "pytest" }], ...over });
const kinds = (items) => items.map(({ kind }) => kind);

test("a turn has a line, its parts are items, reads in a row are one, and a run ends with its facts", () => {
  const messages = [user("u1", "first", { runId: "r1" }), assistant("a1", "r1", [text("I look"), tool("x"), tool("y"), tool("z"), text("  ")], [read("x"), read("y"), bash("z")])];
  const items = new ItemList().of(messages, []);
  assert.deepEqual(kinds(items), ["turn", "user", "part", "looks", "part", "end"]);
  assert.equal(items[3].calls.length, 2);
  assert.equal(textOf(items[4]), "$ pytest\npassed\n");
});

test("what steers stands where it was taken, and says so until then", () => {
  const begun = [user("u1", "first", { runId: "r1" }), assistant("a1", "r1", [text("working")])];
  const waiting = new ItemList().of([...begun, user("s1", "mind this", { status: "pending" })], [{ id: "s1", text: "mind this" }]);
  assert.equal(waiting.at(-1).kind, "steered");
  assert.equal(waiting.at(-1).takenMs, null);
  const taken = new ItemList().of([...begun, user("s1", "mind this", { runId: "r1" }), assistant("a2", "r1", [text("so")], [], { createdMs: 9_000 })], []);
  assert.equal(taken.find(({ kind }) => kind === "steered").takenMs, 9_000);
  assert.equal(kinds(taken).filter((kind) => kind === "turn").length, 1);
});

test("a queued prompt is not said yet, and one that was removed never was", () => {
  assert.deepEqual(new ItemList().of([user("q", "later", { status: "pending" }), user("w", "never", { status: "error" })], []), []);
});

test("what did not change keeps its items, so that it is not drawn again", () => {
  const list = new ItemList();
  const first = [user("u1", "first", { runId: "r1" }), assistant("a1", "r1", [text("one")])];
  const before = list.of(first, []);
  const after = list.of([...first, user("u2", "second", { runId: "r2" })], []);
  before.forEach((item, index) => assert.equal(after[index], item));
});

test("find counts in all messages, whatever its case and its marks", () => {
  const messages = Array.from({ length: 50 }, (_, index) => assistant(`a${index}`, `r${index}`, [text(index % 10 ? "nothing" : "The **retry** loop, the Retry LOOP")]));
  const found = new Finder().find(new ItemList().of(messages, []), "retry loop");
  assert.equal(found.length, 10);
  assert.deepEqual([found[1].occurrence, found[2].occurrence], [1, 0]);
  assert.deepEqual(new Finder().find([], " "), []);
});

test("a file is completed after an at sign, a command only at the beginning", () => {
  assert.deepEqual(tokenAt("look at @src/ca", 15), { kind: "file", query: "src/ca", start: 8, end: 15 });
  assert.equal(tokenAt("mail a@b", 8), null);
  assert.equal(tokenAt("and /not", 8), null);
  assert.equal(tokenAt("/fix", 4).kind, "command");
  assert.deepEqual(completedPrompt("see @ca now", tokenAt("see @ca now", 7), "src/cart.ts"), { text: "see @src/cart.ts now", caret: 17 });
  assert.deepEqual(completedPrompt("@a", tokenAt("@a", 2), "a b.txt"), { text: '@"a b.txt" ', caret: 11 });
});
