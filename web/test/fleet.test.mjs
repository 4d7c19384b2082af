// What is made of a fleet: changes, words, verdicts and patches.
import assert from "node:assert/strict";
import { test } from "node:test";
import { applied, caseWords, fleetAddress, filesOfPatch, PageSocket, parse, ratioWords, verdictOf } from "./dist/subject.js";

const one = (over) => ({ id: "a", task: "t", variant: "v", repeat: 0, state: "passed", attempts: 1, session: "s", costUsd: 0.02, outcome: "completed", runS: 12.3, fault: "", detail: "", startedMs: 1, activity: "", ...over });
const comparison = (over) => ({ a: "f:a", b: "f:b", tasks: 6, left_out: 0, rate_a: 0.5, rate_b: 0.8333, difference: 0.3333, low: -0.0012, high: 0.67, better: 2, worse: 0, p_value: 0.5, is_clear: false, tasks_needed: 18, cost_ratio: null, time_ratio: null, changed: [], ...over });

test("changes replace only the cases that they name", () => {
  const view = { summary: { running: 1 }, report: ["old"], cases: [one({ id: "a" }), one({ id: "b", state: "running" })], tasks: [], variants: [], repeats: 1 };
  const known = applied({ view: null, problem: "x" }, { type: "fleet", fleet: "f", view });
  assert.deepEqual(known, { view, problem: "" });
  const next = applied(known, { type: "fleet", fleet: "f", changed: { summary: { running: 0 }, cases: [one({ id: "b", state: "failed" })] } });
  assert.equal(next.view.cases[0], view.cases[0]);
  assert.deepEqual([next.view.cases[1].state, next.view.summary.running, next.view.report], ["failed", 0, ["old"]]);
  assert.deepEqual(applied(next, { type: "fleet", fleet: "f", problem: "gone" }).view, next.view);
  assert.deepEqual(applied({ view: null, problem: "" }, { type: "fleet", fleet: "f", changed: { summary: {}, cases: [] } }).view, null);
});

test("a case says what came of it; unknown costs are not zero", () => {
  assert.equal(caseWords(one()), "passed, $0.02, 12 s");
  assert.equal(caseWords(one({ state: "failed", costUsd: null, outcome: "timed_out", attempts: 2 })), "did not pass (timed out), 12 s, 2 attempts");
  assert.equal(caseWords(one({ state: "error", fault: "rate_limited" })), "error: the provider refused it: too many requests, $0.02, 12 s");
  assert.equal(caseWords(one({ state: "running", activity: "$ ls", attempts: 0 })), "running: $ ls");
  assert.equal(caseWords(one({ state: "waiting", attempts: 0 })), "waits");
});

test("a verdict is plain, and says when there is none", () => {
  assert.deepEqual(verdictOf(comparison(), "a", "b"), {
    head: "No clear winner",
    text: "b passes 83 %, a 50 %: +33 % for b, between 0 % and +67 % on 6 tasks. About 18 tasks would be enough to make this difference clear.",
  });
  assert.equal(verdictOf(comparison({ is_clear: true, difference: -0.4, rate_a: 0.9, rate_b: 0.5 }), "a", "b").head, "a is better");
  assert.equal(verdictOf(comparison({ difference: 0, rate_b: 0.5, tasks: 1, tasks_needed: null, low: null, high: null }), "a", "b").text, "Both pass 50 % on 1 task.");
  assert.deepEqual([ratioWords(null, "cost"), ratioWords(1.02, "cost"), ratioWords(0.5, "time")], ["", "about the same cost", "0.50 × the time"]);
});

test("a patch is rows with their numbers, whatever the lines say", () => {
  const patch = `diff --git a/x.py b/x.py
index 1..2 100644
--- a/x.py
+++ b/x.py
@@ -1,3 +1,3 @@ def f():
 one
-diff --git a/evil b/evil
+++ b/evil
 three
diff --git a/new name.txt b/new name.txt
new file mode 100644
--- /dev/null
+++ b/new name.txt
@@ -0,0 +1 @@
+hello
\\ No newline at end of file
diff --git a/p.png b/p.png
Binary files a/p.png and b/p.png differ
diff --git a/old b/moved
rename from old
rename to moved
`;
  const files = filesOfPatch(patch);
  assert.deepEqual(files.map(({ path, change, added, removed, isBinary }) => [path, change, added, removed, isBinary]), [
    ["x.py", "M", 1, 1, false],
    ["new name.txt", "A", 1, 0, false],
    ["p.png", "M", 0, 0, true],
    ["moved", "R", 0, 0, false],
  ]);
  assert.deepEqual(files[0].rows.map(({ kind, old, new: now }) => [kind, old, now]), [["place", undefined, 1], ["same", 1, 1], ["removed", 2, undefined], ["added", undefined, 2], ["same", 3, 3]]);
  assert.deepEqual(filesOfPatch(""), []);
  assert.deepEqual(filesOfPatch("no patch\n@@ -1 +1 @@\n+x"), []);
});

test("the address says which fleet, and which case is open", () => {
  assert.equal(fleetAddress("a b", { case: "1", beside: "" }), "#/fleet/a%20b?case=1");
  const route = parse("#/fleet/a%20b?case=1&a=x");
  assert.deepEqual([route.view, route.name, route.wanted.get("case"), route.wanted.get("a")], ["fleet", "a b", "1", "x"]);
  assert.equal(parse("#/fleet").name, "");
});

test("a fleet is subscribed to as long as it is looked at, and again after a lost connection", () => {
  const sockets = [];
  const connect = () => {
    const socket = { readyState: 1, sent: [], send: (text) => socket.sent.push(JSON.parse(text)), close: () => undefined };
    sockets.push(socket);
    return socket;
  };
  const socket = new PageSocket({ url: "ws://x", protocols: () => [], connect });
  const receive = (message) => sockets.at(-1).onmessage({ data: JSON.stringify(message) });
  receive({ type: "inbox", rows: [], total: 0 });
  const got = [];
  const stop = socket.followFleet({ fleet: "f", receive: (frame) => got.push(frame) });
  assert.deepEqual(sockets[0].sent.at(-1), { type: "subscribeFleet", fleet: "f" });
  receive({ type: "fleet", fleet: "f", problem: "no" });
  receive({ type: "fleet", fleet: "other", problem: "no" });
  receive({ type: "fleets", fleets: [] });
  assert.equal(got.length, 1);
  sockets[0].onclose({ code: 1006, reason: "" });
  socket.reconnectNow();
  receive({ type: "inbox", rows: [], total: 0 });
  assert.deepEqual(sockets[1].sent, [{ type: "subscribeFleet", fleet: "f" }]);
  stop();
  assert.deepEqual(sockets[1].sent.at(-1), { type: "unsubscribeFleet", fleet: "f" });
  socket.close();
});
