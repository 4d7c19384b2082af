// The connection: snapshots, deltas, commands that wait, connecting again.
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { CommandQueueFull, EMPTY_STATE, HarnessClient, HarnessWebsocketTransport } from "../dist/harness-client.js";

/** A socket whose far side is the test. */
class ScriptedSocket {
  readyState = 0;
  sent = [];
  closedWith = null;
  onopen = null;
  onmessage = null;
  onclose = null;
  onerror = null;
  send(data) {
    this.sent.push(JSON.parse(data));
  }
  close(code) {
    this.closedWith = code;
    this.readyState = 3;
  }
  says(message) {
    this.readyState = 1;
    this.onmessage?.({ data: typeof message === "string" ? message : JSON.stringify(message) });
  }
  breaks(code = 1006, reason = "") {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
}

const snapshot = (over) => ({ type: "state", state: { ...EMPTY_STATE, ...over }, seq: 0 });
const delta = (...operations) => ({ type: "delta", operations, seq: 1 });

function connected(options = {}) {
  const sockets = [];
  const transport = new HarnessWebsocketTransport({
    url: "ws://example.invalid/ws",
    connect: () => sockets[sockets.push(new ScriptedSocket()) - 1],
    ...options,
  });
  return { transport, sockets };
}

beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

test("the snapshot replaces everything and deltas go on from it", () => {
  const { transport, sockets } = connected();
  assert.equal(transport.loaded, false);
  sockets[0].says(snapshot({ title: "one" }));
  sockets[0].says(delta({ type: "append-text", path: ["title"], value: " two" }));
  assert.equal(transport.state.title, "one two");
  assert.equal(transport.status, "open");
  sockets[0].says(snapshot({ title: "anew" }));
  assert.equal(transport.state.title, "anew");
});

test("a conversation that began here is connected to again under its own id", () => {
  const urls = [];
  const sockets = [];
  const connect = (url) => (urls.push(url), sockets[sockets.push(new ScriptedSocket()) - 1]);
  new HarnessWebsocketTransport({ url: "ws://example.invalid/ws", connect });
  sockets[0].says(snapshot({}));
  sockets[0].says(snapshot({ sessionId: "s 1" }));
  sockets[0].breaks();
  mock.timers.tick(10_000);
  assert.deepEqual(urls, ["ws://example.invalid/ws", "ws://example.invalid/ws?session=s+1"]);
});

test("what comes between two frames is applied at once in the next one", () => {
  const frames = [];
  const { transport, sockets } = connected({ schedule: (apply) => (frames.push(apply), () => frames.pop()) });
  let told = 0;
  transport.subscribe(() => (told += 1));
  sockets[0].says(snapshot({ title: "" }));
  for (let index = 0; index < 100; index++) sockets[0].says(delta({ type: "append-text", path: ["title"], value: "x" }));
  assert.equal(frames.length, 1);
  frames.shift()();
  assert.equal(transport.state.title, "x".repeat(100));
  assert.equal(told, 1);
});

test("commands given without a connection wait, in order, for the next whole state", () => {
  const { transport, sockets } = connected();
  const client = new HarnessClient({ transport });
  client.submit("first");
  client.cancel();
  assert.equal(transport.waitingCommands.length, 2);
  sockets[0].says(snapshot({}));
  assert.deepEqual(sockets[0].sent, [{ type: "commands", commands: [{ type: "submit", prompt: "first" }, { type: "cancel" }] }]);
  assert.equal(transport.waitingCommands.length, 0);
});

test("more commands than may wait are refused, and waiting ones can be taken back", () => {
  const { transport } = connected({ waitingCommandsMax: 1 });
  transport.send({ type: "cancel" });
  assert.throws(() => transport.send({ type: "cancel" }), CommandQueueFull);
  assert.deepEqual(transport.discardWaiting(), [{ type: "cancel" }]);
});

test("a lost connection is made anew, with pauses that grow, and keeps the state in between", () => {
  const { transport, sockets } = connected({ reconnectFirst_ms: 100, reconnectLongest_ms: 400 });
  sockets[0].says(snapshot({ title: "kept" }));
  sockets[0].breaks();
  assert.equal(transport.status, "waiting");
  assert.equal(transport.state.title, "kept");
  mock.timers.tick(130);
  assert.equal(sockets.length, 2);
  sockets[1].breaks();
  mock.timers.tick(130);
  assert.equal(sockets.length, 2, "the second pause is longer");
  mock.timers.tick(130);
  assert.equal(sockets.length, 3);
  sockets[2].says(snapshot({ title: "new" }));
  assert.equal(transport.state.title, "new");
});

test("connecting now does not wait for the pause", () => {
  const { transport, sockets } = connected();
  sockets[0].breaks();
  transport.reconnectNow();
  assert.equal(sockets.length, 2);
});

test("a delta that does not fit makes a new connection instead of a wrong state", () => {
  const { transport, sockets } = connected();
  sockets[0].says(snapshot({ title: "right" }));
  sockets[0].says(delta({ type: "append-text", path: ["nothing"], value: "x" }));
  assert.equal(transport.state.title, "right");
  assert.notEqual(sockets[0].closedWith, null);
  mock.timers.tick(1000);
  assert.equal(sockets.length, 2);
});

test("a frame that is no JSON makes a new connection", () => {
  const { transport, sockets } = connected();
  sockets[0].says(snapshot({}));
  sockets[0].says("{");
  assert.equal(transport.status, "waiting");
});

test("an unknown session ends it, with the server's words", () => {
  const { transport, sockets } = connected();
  sockets[0].breaks(4404, "No such session");
  assert.equal(transport.status, "closed");
  assert.equal(transport.closeReason, "No such session");
  mock.timers.tick(60_000);
  assert.equal(sockets.length, 1);
});

test("what a socket says after it was given up is not heard", () => {
  const { transport, sockets } = connected();
  sockets[0].says(snapshot({ title: "a" }));
  const late = sockets[0].onmessage;
  transport.close();
  late({ data: JSON.stringify(snapshot({ title: "b" })) });
  assert.equal(transport.state.title, "a");
  assert.throws(() => transport.send({ type: "cancel" }), CommandQueueFull);
});

test("the server's refusals reach those who listen for them", () => {
  const { transport, sockets } = connected();
  const heard = [];
  transport.onError((message) => heard.push(message));
  sockets[0].says(snapshot({}));
  sockets[0].says({ type: "error", message: "no run to steer" });
  assert.deepEqual(heard, ["no run to steer"]);
  assert.equal(transport.status, "open");
});
