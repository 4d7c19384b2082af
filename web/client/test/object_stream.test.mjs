// The reducer: the rules of the object stream, and 10,000 random lists of operations against npm `assistant-stream`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AssistantTransportDeltaTracker } from "assistant-stream";
import { applyOperations, ObjectStreamError } from "../dist/harness-client.js";

const set = (path, value) => ({ type: "set", path, value });
const append = (path, value) => ({ type: "append-text", path, value });

test("set and append-text change what is at the path and nothing else", () => {
  const before = { status: "idle", messages: [{ content: "Hello" }, { content: "other" }] };
  const after = applyOperations(before, [set(["status"], "running"), append(["messages", "0", "content"], " world")]);
  assert.deepEqual(after, { status: "running", messages: [{ content: "Hello world" }, { content: "other" }] });
  assert.deepEqual(before, { status: "idle", messages: [{ content: "Hello" }, { content: "other" }] });
  assert.equal(after.messages[1], before.messages[1]);
});

test("an empty path replaces the whole state, and appends to a state that is text", () => {
  assert.deepEqual(applyOperations({ a: 1 }, [set([], [1])]), [1]);
  assert.equal(applyOperations("a", [append([], "b")]), "ab");
  assert.throws(() => applyOperations({}, [append([], "b")]), ObjectStreamError);
});

test("the position equal to the length appends, and one beyond is refused", () => {
  assert.deepEqual(applyOperations([1], [set(["1"], 2)]), [1, 2]);
  assert.throws(() => applyOperations([1], [set(["2"], 2)]), /out of bounds/);
  assert.throws(() => applyOperations([1], [set(["-1"], 2)]), /out of bounds/);
});

test("a position that is no decimal number is refused", () => {
  for (const segment of ["x", "", "01", "1.5", "1e0", " 0", "NaN"])
    assert.throws(() => applyOperations([1, 2], [set([segment], 0)]), /Expected array index/, segment);
});

test("nothing on the way becomes an object, even under a numeric key", () => {
  assert.deepEqual(applyOperations(null, [set(["a", "0"], 1)]), { a: { 0: 1 } });
});

test("a path through a scalar is refused", () => {
  assert.throws(() => applyOperations({ a: "text" }, [set(["a", "b"], 1)]), /Invalid path/);
});

test("text is appended only to text that is there", () => {
  for (const state of [{}, { a: null }, { a: 1 }, { a: [] }])
    assert.throws(() => applyOperations(state, [append(["a"], "x")]), /Expected string/);
  assert.deepEqual(applyOperations({ a: "" }, [append(["a"], "x")]), { a: "x" });
});

test("segments that reach into a prototype are refused, and inherited names are absent", () => {
  for (const segment of ["__proto__", "constructor", "prototype"])
    assert.throws(() => applyOperations({}, [set([segment, "x"], 1)]), ObjectStreamError);
  assert.throws(() => applyOperations({}, [append(["toString"], "x")]), /Expected string/);
  assert.equal({}.x, undefined);
});

test("an unknown kind of operation is refused", () => {
  assert.throws(() => applyOperations({}, [{ type: "delete", path: ["a"] }]), /Invalid operation type/);
});

test("a list with one bad operation changes nothing, and what it was given stays untouched", () => {
  const value = { text: "a" };
  const state = { list: [] };
  assert.throws(() => applyOperations(state, [set(["list", "0"], value), append(["list", "0", "text"], "b"), set(["list", "9"], 0)]));
  assert.deepEqual(state, { list: [] });
  assert.deepEqual(value, { text: "a" });
});

function randomSource(seed) {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  return { next, pick: (items) => items[Math.floor(next() * items.length)] };
}

const SEGMENTS = ["a", "b", "content", "0", "1", "2", "3", "-1", "01", "1.5", "", "é", "toString", "__proto__", "length"];
const COMMON = ["a", "b", "0", "1", "2"];

function randomValue(random, depth) {
  const kind = random.next();
  if (depth > 0 && kind < 0.3)
    return Object.fromEntries([0, 1, 2].map(() => [random.pick(COMMON), randomValue(random, depth - 1)]));
  if (depth > 0 && kind < 0.6) return Array.from({ length: Math.floor(random.next() * 4) }, () => randomValue(random, depth - 1));
  return random.pick(["", "text", "naïve 🙂", 0, 1.5, true, null]);
}

/** Mostly paths that exist, so that the lists go somewhere; the rest is anything. */
function randomPath(random, state) {
  const path = [];
  let current = state;
  while (random.next() < 0.75 && path.length < 5) {
    if (current !== null && typeof current !== "object" && random.next() < 0.95) break;
    const known = current !== null && typeof current === "object" ? Object.keys(current) : [];
    if (Array.isArray(current)) known.push(String(current.length));
    const segment = known.length && random.next() < 0.9 ? random.pick(known) : random.pick(random.next() < 0.7 ? COMMON : SEGMENTS);
    path.push(segment);
    current = current?.[segment];
  }
  return path;
}

function randomOperation(random, state) {
  const path = randomPath(random, state);
  if (random.next() < 0.02) return { type: "remove", path };
  const target = path.reduce((value, segment) => value?.[segment], state);
  return random.next() < (typeof target === "string" ? 0.6 : 0.03) ? append(path, random.pick(["", "x", "🙂 tail"])) : set(path, randomValue(random, 3));
}

test("10,000 random lists of operations give what assistant-stream gives, or are refused as it refuses them", () => {
  const random = randomSource(20260727);
  let refused = 0;
  let applied = 0;
  for (let round = 0; round < 10_000; round++) {
    const initial = randomValue(random, 4);
    const oracle = new AssistantTransportDeltaTracker(structuredClone(initial));
    let ours = initial;
    for (let batch = 0; batch < 3; batch++) {
      const operations = Array.from({ length: 1 + Math.floor(random.next() * 4) }, () => randomOperation(random, ours));
      let expectedError = null;
      try {
        oracle.append(structuredClone(operations));
      } catch (error) {
        expectedError = error;
      }
      const before = structuredClone(ours);
      try {
        const after = applyOperations(ours, operations);
        assert.equal(expectedError, null, `assistant-stream refuses ${JSON.stringify(operations)}: ${expectedError?.message}`);
        assert.deepEqual(ours, before);
        ours = after;
        applied += 1;
      } catch (error) {
        if (!(error instanceof ObjectStreamError)) throw error;
        assert.ok(expectedError, `assistant-stream accepts ${JSON.stringify(operations)} on ${JSON.stringify(ours)}: ${error.message}`);
        refused += 1;
      }
      assert.deepEqual(ours, oracle.state);
    }
  }
  assert.ok(applied > 10_000 && refused > 2_000, `applied ${applied}, refused ${refused}`);
});
