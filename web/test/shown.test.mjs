// What is shown is what there is: unseen characters, arguments before they are complete, references between blocks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BlockSplitter, commandIn, completed, inOneLine, operationsOf, partialInput, progressOf, referencesIn, revealed, sizeOf, stretchesOf, summaryOf } from "./dist/subject.js";

test("what turns, hides or commands is spelled out in what is run", () => {
  assert.equal(revealed("echo \u202e; rm #\u202c"), "echo <U+202E>; rm #<U+202C>");
  assert.equal(revealed("a\u200bb\u2028c\u00a0d\u200de\u001bf\u{e0041}g\ud800h\r\n"), "a<U+200B>b<U+2028>c<U+00A0>d<U+200D>e␛f<U+E0041>g\ufffdh␍\n");
  assert.equal(revealed("plain — äöü 漢字 שלום\n\ttext"), "plain — äöü 漢字 שלום\n\ttext");
});

test("in what is said, letters of other scripts and emoji stay joined, and nothing else", () => {
  for (const joined of ["👩‍❤️‍👨", "می‌خواهم", "1️⃣", "☑️"]) assert.equal(revealed(joined, "speech"), joined);
  assert.equal(revealed("rm\u200d -rf\u200e", "speech"), "rm<U+200D> -rf<U+200E>");
  assert.equal(revealed("a\r\nb\u202e", "speech"), "a\r\nb<U+202E>");
});

test("a run of blanks or empty lines is counted, and an indented text is not", () => {
  assert.equal(revealed(`ls${"\n".repeat(60)}echo`), "ls\n⟨59 empty lines⟩\necho");
  assert.equal(revealed(`ls${" ".repeat(300)};rm`), "ls⟨300 blanks⟩;rm");
  assert.equal(revealed(`${" ".repeat(400)};rm`), "⟨400 blanks⟩;rm");
  const code = "def f():\n            return 1\n\n\ndef g(): pass\n";
  assert.equal(revealed(code), code);
});

test("stretches put together are the text", () => {
  const text = `a\u202eb${"\n".repeat(9)}c\u200d${" ".repeat(99)}d`;
  for (const kind of ["code", "speech"]) assert.equal(stretchesOf(text, kind).map((one) => one.text).join(""), text);
  assert.equal(inOneLine("a\n b\u202e"), "a b<U+202E>");
});

test("the words of a command stay apart, and what else is given is shown beside it", () => {
  assert.equal(commandIn({ command: ["echo", "a; rm b", "it's"] }), "echo 'a; rm b' 'it'\\''s'");
});

test("arguments are read while they are written, at every letter", () => {
  const whole = { filePath: "big.py", content: 'line "1"\nline 2\u00e9', list: [1, { deep: true }] };
  const text = JSON.stringify(whole);
  for (let length = 1; length <= text.length; length++) {
    const found = partialInput(text.slice(0, length));
    assert.ok(found === null || typeof found === "object", text.slice(0, length));
    if (length > 30) assert.equal(found.filePath, "big.py", text.slice(0, length));
  }
  assert.deepEqual(partialInput(text), whole);
});

const call = (over) => ({ id: "c", name: "any", status: "running", input: null, inputText: "", operations: [], ...over });

test("a call is told by its operation before it has begun", () => {
  const head = (over) => (({ verb, subject }) => `${verb} ${subject}`)(summaryOf(call(over)));
  assert.equal(head({ inputText: '{"filePath": "big.py", "content": "line_0' }), "Write big.py");
  assert.equal(head({ inputText: '{"command": "echo two"}' }), "Run echo two");
  assert.equal(head({ input: { file_path: "a.py", old_string: "a", new_string: "b" } }), "Edit a.py");
  assert.deepEqual(operationsOf(call({ operations: [{ kind: "list" }], input: { command: "x" } })), [{ kind: "list" }]);
});

test("what was never carried out has not failed", () => {
  const relay = (over) => ({ id: "r", kind: "permission", callId: "c", status: "pending", by: "", reason: "", ...over });
  assert.equal(progressOf(call({ inputText: "{" })), "waiting");
  assert.equal(progressOf(call({ inputText: "{}", status: "error" })), "not run");
  assert.equal(progressOf(call({ input: {} }), relay()), "waiting");
  assert.equal(progressOf(call({ input: {} }), relay({ status: "approved" })), "running");
  assert.equal(progressOf(call({ status: "error" }), relay({ status: "denied", by: "person" })), "denied");
  assert.equal(progressOf(call({ status: "error" }), relay({ status: "denied", reason: "the run has ended" })), "not run");
  assert.equal(progressOf(call({ status: "error" }), relay({ status: "denied", by: "policy", reason: "the run was stopped" })), "not run");
  assert.equal(progressOf(call({ status: "error" })), "failed");
  assert.equal(progressOf(call({ status: "complete" })), "complete");
});

test("footnotes are blocks of their own, and no line that looks like an address vanishes", () => {
  const blocks = new BlockSplitter().split("Term[^1] and [a][b]\n[^1]: One\n    two\n[^x]: three\n\n[b]: https://b.example\n\n[INFO]: kept\n\n> [^2]: quoted\n");
  assert.deepEqual(blocks.flatMap(({ note }) => note ?? []), [{ label: "1", body: "One\ntwo\n" }, { label: "x", body: "three\n\n" }]);
  const references = referencesIn(blocks);
  assert.deepEqual(references.notes, ["1", "x"]);
  const parsed = blocks.map(({ text }) => completed(text, references).trim());
  assert.equal(parsed[0], "Term[^1] and [a][b]\n\n\n[b]: https://b.example");
  assert.ok(parsed.includes("\\[INFO]: kept"));
  assert.ok(parsed.includes("> \\[^2]: quoted"));
});

test("the size of a picture is known before it is unpacked", () => {
  const bytes = (text) => Uint8Array.from(Buffer.from(text, "base64"));
  assert.deepEqual(sizeOf(bytes("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")), [1, 1]);
  assert.deepEqual(sizeOf(bytes("R0lGODlhAQACAAAAACw=")), [1, 2]);
  assert.deepEqual(sizeOf(bytes("UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoCAAMAAgA0JaQAA3AA/vuUAAA=")), [2, 3]);
  assert.deepEqual(sizeOf(Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xc0, 0, 17, 8, 0, 7, 0, 9)), [9, 7]);
  assert.deepEqual(sizeOf(Uint8Array.of(1, 2, 3)), [NaN, NaN]);
});
