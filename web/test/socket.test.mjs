import assert from "node:assert/strict";
import { test } from "node:test";
import { PageSocket, SessionTransport, SharedHub } from "./dist/subject.js";

/** A socket whose other end is the test. */
class Wire {
  readyState = 1;
  sent = [];
  onopen = null;
  onmessage = null;
  onclose = null;
  onerror = null;
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.readyState = 3;
  }
  say(message) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
  drop(code = 1006) {
    this.readyState = 3;
    this.onclose?.({ code, reason: "gone" });
  }
}

const INBOX = { type: "inbox", rows: [], total: 0, counts: {}, today: {} };
const state = (over) => ({ status: "idle", messages: [], sessionId: "s1", title: "", ...over });

function connected() {
  const wires = [];
  let now = 1_000;
  const socket = new PageSocket({ url: "ws://x/ws/inbox", protocols: () => [], connect: () => (wires.push(new Wire()), wires.at(-1)), now: () => now++ });
  wires[0].say(INBOX);
  return { socket, wires };
}

function following(socket, session) {
  const transport = new SessionTransport(socket, session);
  transport.open();
  return transport;
}

test("one socket carries the inbox and every conversation that is followed", (t) => {
  const { socket, wires } = connected();
  t.after(() => socket.close());
  const heard = [];
  socket.onInbox((frames) => heard.push(...frames.map(({ type }) => type)));
  const one = following(socket, "s1");
  const two = following(socket, "s2");
  assert.deepEqual(wires[0].sent, [{ type: "subscribe", session: "s1" }, { type: "subscribe", session: "s2" }]);
  assert.equal(one.status, "connecting");
  wires[0].say({ type: "state", session: "s1", state: state({ title: "one" }) });
  wires[0].say({ type: "delta", session: "s1", operations: [{ type: "append-text", path: ["title"], value: "!" }] });
  wires[0].say({ type: "rows", changed: [], removed: [], counts: {} });
  assert.deepEqual([one.status, one.state.title, two.loaded, heard], ["open", "one!", false, ["rows"]]);
  one.send({ type: "submit", prompt: "go" });
  assert.deepEqual(wires[0].sent.at(-1), { type: "commands", session: "s1", commands: [{ type: "submit", prompt: "go" }] });
  one.close();
  assert.deepEqual(wires[0].sent.at(-1), { type: "unsubscribe", session: "s1" });
});

test("a lost connection is made again, subscriptions with it, and messages that waited are sent once", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { socket, wires } = connected();
  t.after(() => socket.close());
  const one = following(socket, "s1");
  wires[0].say({ type: "state", session: "s1", state: state() });
  wires[0].drop();
  assert.deepEqual([socket.status, one.status, one.loaded], ["waiting", "waiting", true]);
  assert.ok(socket.lostSinceMs > 0);
  one.send({ type: "submit", prompt: "later" });
  t.mock.timers.tick(10_000);
  wires[1].say(INBOX);
  assert.deepEqual(wires[1].sent, [{ type: "subscribe", session: "s1" }]);
  assert.equal(one.status, "connecting");
  wires[1].say({ type: "state", session: "s1", state: state({ title: "again" }) });
  assert.deepEqual(wires[1].sent.at(-1).commands, [{ type: "submit", prompt: "later" }]);
  assert.deepEqual([one.status, one.state.title, one.waitingCommands.length, socket.lostSinceMs], ["open", "again", 0, 0]);
});

test("an answer is never sent later", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { socket, wires } = connected();
  t.after(() => socket.close());
  const one = following(socket, "s1");
  const said = [];
  one.onError((message) => said.push(message));
  wires[0].say({ type: "state", session: "s1", state: state() });
  wires[0].drop();
  one.send({ type: "approve", relayId: "r1" });
  assert.equal(one.waitingCommands.length, 0);
  assert.match(said[0], /not sent/);
  assert.equal(socket.send({ type: "seen", session: "s1" }), false);
});

test("what does not fit is asked for again, as a whole", (t) => {
  const { socket, wires } = connected();
  t.after(() => socket.close());
  const one = following(socket, "s1");
  wires[0].say({ type: "state", session: "s1", state: state({ title: "a" }) });
  wires[0].say({ type: "delta", session: "s1", operations: [{ type: "append-text", path: ["messages", "7", "content"], value: "x" }] });
  assert.deepEqual(wires[0].sent.slice(-2), [{ type: "unsubscribe", session: "s1" }, { type: "subscribe", session: "s1" }]);
  wires[0].say({ type: "delta", session: "s1", operations: [{ type: "append-text", path: ["title"], value: "late" }] });
  assert.equal(one.state.title, "a");
  wires[0].say({ type: "state", session: "s1", state: state({ title: "b" }) });
  assert.equal(one.state.title, "b");
});

test("a session that is unknown is over, a command that is refused is said", (t) => {
  const { socket, wires } = connected();
  t.after(() => socket.close());
  const [unknown, known] = [following(socket, "s0"), following(socket, "s1")];
  const said = [];
  known.onError((message) => said.push(message));
  wires[0].say({ type: "state", session: "s1", state: state() });
  wires[0].say({ type: "error", session: "s0", message: "there is no session s0" });
  wires[0].say({ type: "error", session: "s1", message: "It changed, look again", commandId: "c1" });
  assert.deepEqual([unknown.status, unknown.closeReason, known.status, said], ["closed", "there is no session s0", "open", ["It changed, look again"]]);
});

test("a server that refuses for good is not asked again", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { socket, wires } = connected();
  wires[0].drop(4403);
  t.mock.timers.tick(60_000);
  assert.deepEqual([socket.status, socket.closeReason, wires.length], ["closed", "gone", 1]);
});

/** A hub with wires to the server, and tabs that note what they get. */
function sharing() {
  const wires = [];
  const hub = new SharedHub(() => (wires.push(new Wire()), wires.at(-1)));
  const tab = () => {
    const heard = [];
    const one = { heard, postMessage: (message) => heard.push(message.kind === "message" ? JSON.parse(message.data) : message) };
    one.open = () => hub.receive(one, { kind: "open", url: "ws://x", protocols: [], lock: "" });
    one.say = (message) => hub.receive(one, { kind: "send", data: JSON.stringify(message) });
    one.close = () => hub.receive(one, { kind: "close" });
    one.open();
    return one;
  };
  return { hub, wires, tab };
}

test("all tabs share one connection, and one that joins gets the inbox as it is", () => {
  const { wires, tab } = sharing();
  const one = tab();
  wires[0].say({ ...INBOX, rows: [{ id: "a", title: "old" }, { id: "b" }], total: 2, counts: { running: 0 } });
  wires[0].say({ type: "rows", changed: [{ id: "a", title: "new" }, { id: "c" }], removed: ["b"], counts: { running: 1 } });
  const two = tab();
  assert.equal(wires.length, 1);
  assert.deepEqual(two.heard, [{ kind: "joined" }, { ...INBOX, rows: [{ id: "a", title: "new" }, { id: "c" }], total: 2, counts: { running: 1 } }]);
  wires[0].say({ type: "rows", changed: [], removed: [], counts: {} });
  assert.deepEqual([one.heard.at(-1).type, two.heard.at(-1).type], ["rows", "rows"]);
});

test("a session is subscribed to once, and each tab hears what it asked for", () => {
  const { wires, tab } = sharing();
  const [one, two, three] = [tab(), tab(), tab()];
  wires[0].say(INBOX);
  one.say({ type: "subscribe", session: "s1" });
  two.say({ type: "subscribe", session: "s1" });
  assert.deepEqual(wires[0].sent.map(({ type }) => type), ["subscribe", "unsubscribe", "subscribe"], "each begins with a whole state");
  wires[0].say({ type: "delta", session: "s1", operations: [] });
  assert.deepEqual([one, two, three].map(({ heard }) => heard.filter(({ type }) => type === "delta").length), [1, 1, 0]);
  one.say({ type: "unsubscribe", session: "s1" });
  assert.equal(wires[0].sent.length, 3, "the other tab still needs it");
  two.close();
  assert.deepEqual(wires[0].sent.at(-1), { type: "unsubscribe", session: "s1" });
});

test("a refusal is shown in the tab that gave the command", () => {
  const { wires, tab } = sharing();
  const [one, two] = [tab(), tab()];
  wires[0].say(INBOX);
  for (const each of [one, two]) each.say({ type: "subscribe", session: "s1" });
  two.say({ type: "commands", session: "s1", commands: [{ type: "approve", id: "k7" }] });
  wires[0].say({ type: "error", session: "s1", commandId: "k7", message: "It changed, look again" });
  wires[0].say({ type: "error", session: "s1", message: "to all who see it" });
  assert.deepEqual([one, two].map(({ heard }) => heard.filter(({ type }) => type === "error").length), [1, 2]);
});

test("when the connection is lost all tabs know, the first connects them again, and the last one closes it", () => {
  const { hub, wires, tab } = sharing();
  const [one, two] = [tab(), tab()];
  wires[0].say(INBOX);
  wires[0].drop(1012);
  assert.deepEqual([one, two].map(({ heard }) => heard.at(-1)), [1, 2].map(() => ({ kind: "closed", code: 1012, reason: "gone" })));
  one.open();
  two.open();
  assert.equal(wires.length, 2);
  wires[1].say(INBOX);
  assert.deepEqual([one, two].map(({ heard }) => heard.at(-1).type), ["inbox", "inbox"]);
  one.close();
  assert.equal(wires[1].readyState, 1);
  hub.leave(two);
  assert.equal(wires[1].readyState, 3);
});
