import assert from "node:assert/strict";
import { test } from "node:test";
import { alikeIn, allowsSeveral, arranged, askedIn, choicesIn, choicesOf, cost, dayOf, fieldsOf, groupsOf, inboxAddress, limitOf, NO_FILTER, numberedLines, openAsks, parse, partnersOf, passes, projectOf, refusedWords, replacesAll, reviewAddress, roughly, sectionsOf, sessionAddress, stateWords, stepsOf, withTag } from "./dist/subject.js";

const NOW = new Date(2026, 10, 16, 14, 30).getTime();
const HOUR = 3_600_000;
const row = (id, over = {}) => ({
  id,
  title: id,
  agent: "Codex",
  agentName: "codex",
  state: "succeeded",
  stateSinceMs: 0,
  startedMs: 0,
  updatedMs: NOW,
  tags: [],
  asks: [],
  changes: null,
  costUsd: 1,
  isCostComplete: true,
  can: { answer: true },
  ...over,
  project: { root: `/code/${over.project ?? "shop"}`, name: over.project ?? "shop" },
});
const ask = (id, over = {}) => ({ id, marks: [], alike: "", ...over });
const ids = (rows) => rows.map(({ id }) => id);

test("an address is read back as it was written", () => {
  const filter = { state: "failed", project: "/code/my shop", agent: "codex", tag: "a&b" };
  assert.deepEqual(parse(inboxAddress(filter)), { view: "inbox", filter, answering: "" });
  assert.deepEqual(parse(inboxAddress({}, "s 1")), { view: "inbox", filter: NO_FILTER, answering: "s 1" });
  assert.deepEqual(parse(""), { view: "inbox", filter: NO_FILTER, answering: "" });
  assert.deepEqual(parse(sessionAddress("a/b?c")), { view: "session", id: "a/b?c", areChangesShown: false });
  const review = parse(reviewAddress("s1", { scope: "turn", file: "a b.ts" }));
  assert.deepEqual([review.view, review.id, review.wanted.get("file")], ["review", "s1", "a b.ts"]);
  assert.equal(parse("#/c/%E0%A4%A").id, "%E0%A4%A", "a broken address is no error");
});

test("who waits longest comes first, then what runs, then the newest", () => {
  const rows = [
    row("old", { updatedMs: NOW - HOUR }),
    row("new"),
    row("asks late", { state: "asks", stateSinceMs: 20, asks: [ask("q")] }),
    row("asks first", { state: "needs-approval", stateSinceMs: 10, asks: [ask("p")] }),
    row("runs", { state: "running" }),
    row("asks nothing that is known", { state: "asks" }),
  ];
  const sections = sectionsOf(rows, NO_FILTER);
  assert.deepEqual(ids(sections.needsYou), ["asks first", "asks late"]);
  assert.deepEqual(ids(sections.running), ["asks nothing that is known", "runs"]);
  assert.deepEqual(ids(sections.earlier), ["new", "old"]);
});

test("filters are all applied", () => {
  const rows = [row("a", { tags: ["x"] }), row("b", { project: "infra", tags: ["x"] }), row("c", { state: "failed", tags: ["x"] }), row("d", { changes: { files: 1 } })];
  const found = (filter) => ids(sectionsOf(rows, { ...NO_FILTER, ...filter }).earlier).sort();
  assert.deepEqual(found({ tag: "x", project: "/code/shop" }), ["a", "c"]);
  assert.deepEqual(found({ state: "failed" }), ["c"]);
  assert.deepEqual(found({ state: "to-review" }), ["d"]);
  assert.deepEqual(found({ agent: "claude" }), []);
});

test("what has ended is grouped by project and day, with an honest sum", () => {
  const rows = [row("a"), row("b", { project: "infra", costUsd: null }), row("c", { updatedMs: NOW - 24 * HOUR }), row("d", { project: "infra", costUsd: 2 })];
  const groups = groupsOf(rows, "project", NOW);
  assert.deepEqual(groups.map(({ name, day, rows: members }) => [name, day, ids(members)]), [
    ["shop", "Today", ["a"]],
    ["shop", "Yesterday", ["c"]],
    ["infra", "Today", ["b", "d"]],
  ]);
  assert.deepEqual(groups.map(({ costUsd, isCostComplete }) => cost(costUsd, isCostComplete)), ["$1.00", "$1.00", "≥ $2.00"]);
  assert.deepEqual(groupsOf(rows, "day", NOW).map(({ name }) => name), ["Today", "Yesterday"]);
  assert.equal(dayOf(new Date(2025, 0, 2).getTime(), NOW), "2 Jan 2025");
});

test("projects that need you are offered first", () => {
  const rows = [row("a"), row("b"), row("c", { project: "infra", state: "asks" })];
  assert.deepEqual(choicesIn(rows, projectOf).map(({ name, count, needsYou }) => [name, count, needsYou]), [["infra", 1, 1], ["shop", 2, 0]]);
});

test("only questions without marks that can be answered are alike", () => {
  const one = (id, over, can = true) => row(id, { state: "needs-approval", asks: [ask(id, over)], can: { answer: can } });
  const rows = [one("a", { alike: "x" }), one("b", { alike: "x" }), one("c", { alike: "x", marks: [{}] }), one("d", { alike: "x" }, false), one("e", { alike: "y" }), one("f", {})];
  assert.deepEqual(alikeIn(openAsks(rows)).map((group) => group.map(({ row: { id } }) => id)), [["a", "b"]]);
});

test("nothing changes its place while the list is in use, and what is new comes below", () => {
  const none = new Set();
  assert.deepEqual(arranged(["b", "a"], ["a", "b", "c"], none, false), ["a", "b", "c"]);
  assert.deepEqual(arranged(["b", "a"], ["a", "b", "c"], none, true), ["b", "a", "c"]);
  assert.deepEqual(arranged(["a", "b"], ["c", "b"], none, true), ["b", "c"]);
  assert.deepEqual(arranged(["a", "b"], ["b", "c"], new Set(["a"]), false), ["a", "b", "c"], "what was answered stays for a moment");
  assert.deepEqual(arranged([], ["b"], new Set(["a"]), false), ["b"], "what was never shown does not appear when it is over");
});

test("a patch is numbered on both sides, and its lines know which line they replaced", () => {
  const lines = numberedLines("@@ -3,2 +3,3 @@ def f\n same\n-old\n+new\n+--more\n");
  assert.deepEqual(lines.map(({ kind, before, after, text }) => [kind, before, after, text]), [
    ["place", null, null, "def f"],
    ["same", 3, 3, "same"],
    ["removed", 4, null, "old"],
    ["added", null, 4, "new"],
    ["added", null, 5, "--more"],
  ]);
  const paired = numberedLines("@@ -3,2 +3,2 @@\n-old\n+new\n same\n+more\n");
  assert.deepEqual([...partnersOf(paired).values()], ["new", "old"], "a line that only comes has no partner");
  assert.equal(replacesAll(lines, 0), false);
  assert.equal(replacesAll(numberedLines("@@ -1,2 +1 @@\n-a\n-b\n+c\n"), 0), true);
  assert.equal(replacesAll(numberedLines("@@ … @@\n-a\n+b\n"), 0), false, "where in the file is not known");
  const odd = numberedLines("@@ -1,2 +1,2 @@\n--- x\n+++ y\n");
  assert.deepEqual(odd.slice(1).map(({ kind, text }) => [kind, text]), [["removed", "-- x"], ["added", "++ y"]], "a line like a head is a line");
});

test("choices, fields and steps are read from what the agent sent, and nothing else", () => {
  assert.deepEqual(choicesOf({ options: ["a"], payload: null }), [{ label: "a", description: "" }]);
  assert.deepEqual(choicesOf({ options: null, payload: { options: [{ label: "a", description: "b" }, { x: 1 }, null, "c"] } }), [{ label: "a", description: "b" }, { label: "c", description: "" }]);
  assert.deepEqual(choicesOf({ options: ["a", "z"], payload: { options: [{ label: "a", description: "b" }] } }), [{ label: "a", description: "b" }, { label: "z", description: "" }]);
  assert.equal(allowsSeveral({ payload: { selectionMode: "multi_select" } }), true);
  const schema = { type: "object", required: ["a"], properties: { a: { enum: ["x", "y"], title: "A?" }, b: { type: "array", items: { enum: ["1", "2"] } }, c: { type: "integer" }, d: { type: "boolean" } } };
  assert.deepEqual(fieldsOf(schema).map(({ name, title, kind, isRequired }) => [name, title, kind, isRequired]), [["a", "A?", "choice", true], ["b", "b", "choices", false], ["c", "c", "number", false], ["d", "d", "boolean", false]]);
  assert.equal(fieldsOf({ type: "object", properties: { a: { type: "object" } } }), null);
  assert.deepEqual(stepsOf("1. one\n2) two\n"), ["one", "two"]);
  assert.equal(stepsOf("1. one\n- other\n"), null);
});

test("amounts never claim more than is known", () => {
  assert.deepEqual([cost(null), cost(0), cost(0.004), cost(1.5, false)], ["–", "$0.00", "$0.004", "≥ $1.50"]);
  assert.deepEqual([roughly(-5), roughly(48_000), roughly(6 * 60_000), roughly(3 * HOUR), roughly(50 * HOUR)], ["0 s", "48 s", "6 min", "3 h", "2 d"]);
});

test("what is searched for may name files, commands, agents and times", () => {
  assert.deepEqual(askedIn("off by one"), { query: "off by one" });
  assert.deepEqual(askedIn('file:src/cart.py total command:"git push" since:7d'), { file: "src/cart.py", command: "git push", since: "7d", query: "total" });
  assert.deepEqual(askedIn("a profile:x https://a:b"), { query: "a profile:x https://a:b" });
});

test("a reached limit is read from its question, and from no other", () => {
  const budget = { period: "day", project: "", limitUsd: 1, spentUsd: 1.02, moreUsd: 0.25 };
  assert.deepEqual(limitOf({ category: "budget", payload: { budget } }), { period: "day", project: "", limitUsd: 1, spentUsd: 1.02 });
  assert.equal(limitOf({ category: "", payload: { budget } }), null);
  for (const payload of [null, [], {}, { budget: "1" }, { budget: { ...budget, limitUsd: "1" } }, { budget: { ...budget, period: "year" } }]) assert.equal(limitOf({ category: "budget", payload }), null);
});

test("a row says what was refused, and which program stopped it", () => {
  assert.equal(refusedWords(row("a", { refused: 2 })), "2 refused");
  assert.equal(refusedWords(row("a", { refused: 0 })) + refusedWords(row("old")), "");
  const closed = row("b", { state: "interrupted", failure: { code: "program_closed", text: "the program that ran it was closed" } });
  assert.equal(stateWords(closed), "Stopped: the program that ran it was closed");
  const expired = row("d", { state: "failed", failure: { code: "failed", text: "Failed to authenticate.", hint: "Log in again: codex login" } });
  assert.equal(stateWords(expired), "Failed to authenticate. Log in again: codex login");
  assert.ok(passes(closed, { ...NO_FILTER, state: "failed" }));
  assert.ok(!passes(row("c", { state: "interrupted", failure: null }), { ...NO_FILTER, state: "failed" }));
});

test("a tag is given once, without its sign", () => {
  assert.deepEqual(withTag(["a"], " #to do "), ["a", "to-do"]);
  assert.deepEqual(withTag(["a"], "a"), ["a"]);
  assert.deepEqual(withTag([], "  # "), []);
});
