// What can be chosen for a new conversation.
import assert from "node:assert/strict";
import { test } from "node:test";
import { abilitiesOf, branchFor, nearestMode } from "./dist/subject.js";

const agent = (over) => ({ name: "a", title: "A", builtIn: false, capabilities: {}, twoWay: [], ...over });

test("an agent that cannot ask says so, and is not offered to ask", () => {
  const silent = abilitiesOf(agent());
  assert.deepEqual([...silent.modes], ["fullAuto"]);
  assert.match(silent.words, /cannot ask and cannot be read only/);
  const reader = abilitiesOf(agent({ capabilities: { read_only: true } }));
  assert.equal(nearestMode("default", reader), "readOnly");
  assert.equal(nearestMode("fullAuto", reader), "fullAuto");
  const able = abilitiesOf(agent({ twoWay: ["approve", "steer"], capabilities: { resume: true } }));
  assert.equal(able.words, "asks · steers · resumes");
  assert.equal(nearestMode("acceptEdits", able), "acceptEdits");
});

test("a mode that the installed version cannot be held to is not offered, and says why", () => {
  const permissionModes = { default: "Pi 0.73 cannot be asked while it runs", acceptEdits: "so", readOnly: "", fullAuto: "" };
  const old = abilitiesOf(agent({ twoWay: ["approve", "steer"], capabilities: { read_only: true }, permissionModes }));
  assert.deepEqual([old.canAsk, [...old.modes], old.why], [false, ["fullAuto", "readOnly"], permissionModes.default]);
});

test("a branch is called after the prompt, and git accepts its name", () => {
  assert.equal(branchFor("Let customers pay with several gift cards"), "customers-pay-several-gift");
  assert.equal(branchFor("Fix @src/a.ts: größer!"), "fix-gro-er");
  assert.equal(branchFor("  …  "), "new-work");
  for (const text of ["../..", "a".repeat(300), "-rf / --no", "漢字"]) assert.match(branchFor(text), /^[a-z0-9][a-z0-9-]*$/);
});
