// What is made of the bill: unknown stays unknown, and nothing is counted twice.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ceilingOf, csvOf, dollarsOf, endingsOf, lastDays, monogram, seriesOf, sourceOf, sumOf, tintsOf, unpricedIn } from "./dist/subject.js";

const row = (over) => ({ sessions: 1, input: null, cache_read: null, cache_write: null, output: null, reasoning: null, cost_usd: null, cost_source: null, is_cost_complete: true, ...over });

test("days are those of this browser, across months and years", () => {
  assert.deepEqual(lastDays(3, new Date(2026, 0, 1, 23, 59)), ["2025-12-30", "2025-12-31", "2026-01-01"]);
});

test("the largest few are series of their own, all others are one, and the sum stays", () => {
  const days = ["2026-11-01", "2026-11-02"];
  const rows = Array.from({ length: 9 }, (_, index) => row({ day: days[index % 2], agent: `a${index}`, cost_usd: index + 1, cost_source: "stated" }));
  const series = seriesOf([...rows, row({ day: "2026-10-01", agent: "old", cost_usd: 99 })], days, "agent", "cost");
  assert.equal(series.length, 6);
  assert.equal(series[0].key, "a8");
  assert.equal(series.at(-1).isOthers, true);
  assert.equal(series.reduce((sum, one) => sum + one.total, 0), 45);
});

test("stated, priced and unknown are told apart, and a part without a price is said", () => {
  assert.equal(sourceOf(row({ cost_usd: 1, cost_source: "stated" })), "stated");
  assert.equal(sourceOf(row({ cost_usd: 1, cost_source: "computed" })), "priced");
  assert.equal(sourceOf(row({})), "no price");
  assert.match(sourceOf(row({ cost_usd: 1, cost_source: "mixed", is_cost_complete: false })), /part has no price/);
  assert.deepEqual(sumOf([row({ cost_usd: 1 }), row({ is_cost_complete: false })], "cost"), { value: 1, isComplete: false });
});

test("an axis ends at a round number", () => {
  assert.deepEqual([0, 0.07, 1, 24.4, 99, 161].map(ceilingOf), [1, 0.08, 1, 30, 100, 200]);
});

test("a table for a spreadsheet has no formulas", () => {
  const text = csvOf([row({ day: "2026-11-01", project: "=cmd|' /C calc'!A0", agent: 'a,"b"' })]);
  assert.ok(text.includes("'=cmd|"), text);
  assert.ok(text.includes('"a,""b"""'), text);
});

test("runs are counted by how they ended, and an outcome without a word of its own has failed", () => {
  const rows = [
    { agent: "claude", runs: 6, outcomes: { completed: 3, failed: 1, interrupted: 2 } },
    { agent: "codex", runs: 3, outcomes: { limit_exceeded: 1, spawn_failed: 1, unfinished: 1 } },
  ];
  assert.deepEqual(Object.fromEntries(endingsOf(rows)), { done: 3, failed: 2, stopped: 2, "at a limit": 1, unfinished: 1 });
});

test("a limit is an amount of dollars, or none", () => {
  assert.deepEqual(["$20.00", "5,5", " 7 ", ""].map(dollarsOf), [20, 5.5, 7, null]);
  for (const wrong of ["-1", "0", "much", "1e999"]) assert.ok(Number.isNaN(dollarsOf(wrong)), wrong);
});

test("no two series have the same colour, and the larger one keeps its own", () => {
  const series = ["opencode", "pi", "claude"].map((key) => ({ key, isOthers: false, values: [1], total: 1 }));
  const wanted = { opencode: 3, pi: 3, claude: 1 };
  const tints = tintsOf([...series, { key: "others", isOthers: true, values: [1], total: 1 }], (key) => wanted[key]);
  assert.deepEqual([tints[0], tints[2], tints[3]], [3, 1, 0]);
  assert.equal(new Set(tints).size, 4);
  assert.equal(new Set(tintsOf(series, () => 0)).size, 3);
});

test("what was used without a price is named beside a plot of costs", () => {
  const rows = [row({ day: "2026-11-01", agent: "qwen", input: 9 }), row({ day: "2026-11-01", agent: "pi", input: 9, cost_usd: 1 }), row({ day: "2026-10-01", agent: "old", input: 9 })];
  assert.deepEqual(unpricedIn(rows, ["2026-11-01"], "agent"), ["qwen"]);
});

test("agents are told apart by their letters", () => {
  const names = ["claude", "cline", "codex", "continue", "copilot", "kilo", "kimi", "opencode", "native"];
  assert.equal(new Set(names.map((name) => monogram(name, name).letters)).size, names.length);
});
