// The converter to assistant-ui's messages.
import assert from "node:assert/strict";
import { test } from "node:test";
import { applyOperations, EMPTY_STATE, ThreadMessageConverter, toThreadMessages } from "../dist/harness-client.js";

const call = (over) => ({
  id: "c1", name: "bash", status: "running", input: { command: "ls" }, inputText: "", output: "", outputLength: 0,
  exitCode: null, durationMs: null, operations: [], relayId: null, ...over,
});
const assistant = (over) => ({ id: "m2", role: "assistant", content: "", status: "streaming", createdMs: 5, runId: "r", parts: [], ...over });
const relay = (over) => ({
  id: "q1", kind: "permission", callId: "c1", toolName: "bash", input: null, question: "", options: null, payload: null,
  resumeSchema: null, status: "pending", reason: "", answer: null, by: "", runId: "r", ...over,
});
const convert = (...messages) => toThreadMessages({ ...EMPTY_STATE, messages });

test("a user's message has its text and no status", () => {
  const [message] = convert({ id: "m1", role: "user", content: "hi", status: "complete" });
  assert.deepEqual(message.content, [{ type: "text", text: "hi" }]);
  assert.deepEqual(message.attachments, []);
  assert.equal("status" in message, false);
});

test("text, reasoning and calls stay in the order in which they were said and done; blank text is dropped", () => {
  const [message] = convert(
    assistant({
      toolCalls: [call({ status: "complete", output: "a b" })],
      parts: [{ type: "reasoning", text: "hm" }, { type: "text", text: "one" }, { type: "tool", callId: "c1" }, { type: "text", text: " \n" }, { type: "text", text: "two" }],
    }),
  );
  assert.deepEqual(message.content.map((part) => part.text ?? part.toolCallId), ["hm", "one", "c1", "two"]);
  assert.equal(message.content[2].result, "a b");
  assert.deepEqual(message.content[2].args, { command: "ls" });
});

test("a message without parts has its text first and then its calls", () => {
  const [message] = convert(assistant({ parts: undefined, content: "t", toolCalls: [call({})] }));
  assert.deepEqual(message.content.map((part) => part.type), ["text", "tool-call"]);
});

test("each status has its counterpart", () => {
  const statuses = ["pending", "streaming", "complete", "error"].map((status) => convert(assistant({ status }))[0].status.type);
  assert.deepEqual(statuses, ["running", "running", "complete", "incomplete"]);
  const failed = toThreadMessages({ ...EMPTY_STATE, error: "boom", messages: [assistant({ status: "error" })] });
  assert.deepEqual(failed[0].status, { type: "incomplete", reason: "error", error: "boom" });
});

test("a failed call is an error, a running one has no result", () => {
  const parts = [{ type: "tool", callId: "c1" }];
  const [failed] = convert(assistant({ parts, toolCalls: [call({ status: "error", output: "no" })] }));
  assert.equal(failed.content[0].isError, true);
  const [running] = convert(assistant({ parts, toolCalls: [call({})] }));
  assert.equal("result" in running.content[0], false);
});

test("a call that waits for an answer asks for it, and says how it was answered", () => {
  const messages = [assistant({ parts: [{ type: "tool", callId: "c1" }], toolCalls: [call({ relayId: "q1" })] })];
  const [waiting] = toThreadMessages({ ...EMPTY_STATE, messages, relays: [relay({})] });
  assert.deepEqual(waiting.status, { type: "requires-action", reason: "tool-calls" });
  assert.equal(waiting.content[0].approval.approved, undefined);
  const [denied] = toThreadMessages({ ...EMPTY_STATE, messages, relays: [relay({ status: "denied", reason: "no", by: "person" })] });
  assert.equal(denied.content[0].approval.approved, false);
  assert.equal(denied.content[0].approval.reason, "no");
  const [asking] = toThreadMessages({ ...EMPTY_STATE, messages, relays: [relay({ kind: "question", options: ["a", "b"] })] });
  assert.equal(asking.content[0].approval.display, "select");
  assert.deepEqual(asking.status, { type: "requires-action", reason: "interrupt" });
});

test("a sub-agent's messages are inside the call that began it", () => {
  const nested = assistant({ id: "n1", parts: [{ type: "text", text: "inside" }] });
  const [message] = convert(assistant({ parts: [{ type: "tool", callId: "c1" }], toolCalls: [call({ messages: [nested] })] }));
  assert.equal(message.content[0].messages[0].content[0].text, "inside");
});

test("what did not change keeps its identity, and what depends on a changed relay does not", () => {
  const converter = new ThreadMessageConverter();
  const messages = [
    { id: "m1", role: "user", content: "hi", status: "complete" },
    assistant({ parts: [{ type: "text", text: "a" }, { type: "tool", callId: "c1" }], toolCalls: [call({ relayId: "q1" })] }),
  ];
  const state = { ...EMPTY_STATE, messages, relays: [relay({})] };
  const first = converter.convert(state);
  const typed = applyOperations(state, [{ type: "append-text", path: ["messages", "1", "parts", "0", "text"], value: "b" }]);
  const second = converter.convert(typed);
  assert.equal(second[0], first[0]);
  assert.notEqual(second[1], first[1]);
  assert.equal(second[1].content[1], first[1].content[1]);
  const answered = applyOperations(typed, [{ type: "set", path: ["relays", "0", "status"], value: "approved" }]);
  const third = converter.convert(answered);
  assert.equal(third[0], first[0]);
  assert.equal(third[1].content[1].approval.approved, true);
});

test("a part that a newer server made is passed over", () => {
  assert.deepEqual(convert(assistant({ parts: [{ type: "hologram" }, { type: "text", text: "a" }] }))[0].content.length, 1);
});
