// What is asked is what runs: the card of an approval in a real Chromium, against the real server.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { answer, begin, launchBrowser, openPage, shot, untilMark, violations } from "./page.mjs";
import { workplace } from "./scripts.mjs";
import { startServer } from "./server.mjs";

const place = workplace();
let server, browser, origin, storageState;

/** A conversation of its own, as far as its first ask. */
async function asked(prompt, shows = ".dock .command", options = {}) {
  const visitor = await openPage(browser, origin, { storageState, ...options });
  await visitor.page.goto(origin.origin);
  await begin(visitor.page, { prompt, model: place.paced, folder: place.folder });
  await visitor.page.waitForSelector(shows);
  return visitor;
}

async function stopped({ page, context }) {
  await page.getByRole("button", { name: "Stop" }).click();
  await untilMark(page, "idle");
  await context.close();
}

const isInSight = (one) => one.getBoundingClientRect().bottom <= one.closest(".dock").getBoundingClientRect().bottom;

before(async () => {
  server = await startServer({ folder: place.folder, model: place.paced });
  origin = new URL(server.link);
  browser = await launchBrowser();
  const visitor = await openPage(browser, origin);
  await visitor.page.goto(server.link);
  await visitor.page.waitForSelector(".home");
  storageState = await visitor.context.storageState();
  await visitor.context.close();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("what is shown for approval is what runs: nothing is turned round, hidden or pushed out of sight", async () => {
  const { page, context } = await asked("SPOOF", ".dock .command", { viewport: { width: 1280, height: 800 } });
  const command = page.locator(".dock .command");
  assert.equal(await page.locator(".dock .ask-title").innerText(), "Run a command?");
  assert.equal(await command.innerText(), "$ echo safe <U+202E>; rm -rf ~ #<U+202C> ok<U+200B><U+2028>");
  assert.equal(await command.locator(".hid").count(), 4);
  assert.equal(await page.locator(".dock .always-first").count(), 0, "what hides a part of itself is allowed once at most");
  await shot(page, "approval-spoofed");
  await answer(page, /Deny…/);
  await answer(page, /^Deny Ctrl/);
  await page.locator(".dock .command", { hasText: "HIDDEN-PART" }).waitFor();
  assert.equal(await command.innerText(), "$ ls\n⟨59 empty lines⟩\necho HIDDEN-PART");
  assert.ok(await command.evaluate(isInSight), "out of sight");
  assert.equal(await page.locator(".dock .ask-what").innerText(), `in ${place.folder}/elsewhere`);
  assert.equal(await page.locator(".dock .more-arguments").innerText(), "workdir\nelsewhere\ntimeout\n5");
  await shot(page, "approval-blank-lines");
  await page.getByRole("button", { name: "Stop" }).click();
  await untilMark(page, "idle");
  assert.deepEqual(await page.locator(".tool").evaluateAll((cards) => cards.map((card) => card.dataset.status)), ["error", "skipped"]);
  assert.match(await page.locator(".tool").nth(1).innerText(), /not run/);
  await context.close();
});

test("a tall command is folded with a count, and unfolded with a button", async () => {
  const visitor = await asked("TALL");
  const dock = visitor.page.locator(".dock");
  const hiddenLines = () => dock.locator(".tall-box").evaluate((box) => (box.scrollHeight - box.clientHeight) / parseFloat(getComputedStyle(box).lineHeight));
  const more = dock.getByRole("button", { name: /^\d+ more lines: show all$/ });
  await shot(visitor.page, "approval-tall");
  const counted = Number.parseInt(await more.innerText());
  assert.ok(counted > 20 && Math.abs(counted - (await hiddenLines())) <= 1, `${counted} lines`);
  assert.equal(await dock.locator(".always-first").count(), 0, "what was not all on the screen is not allowed for longer");
  await more.click();
  assert.equal(await hiddenLines(), 0);
  await dock.getByRole("button", { name: "Show less" }).waitFor();
  await stopped(visitor);
});

test("letters that are written from right to left move nothing in a command", async () => {
  const visitor = await asked("HEBREW");
  const edges = await visitor.page.locator(".dock .command").evaluate((command) => {
    const walker = document.createTreeWalker(command, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    const found = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode())
      for (let index = 0; index < node.length; index++) {
        range.setStart(node, index);
        range.setEnd(node, index + 1);
        found.push(range.getBoundingClientRect().left);
      }
    return found;
  });
  assert.deepEqual(edges, edges.toSorted((one, other) => one - other));
  await shot(visitor.page, "approval-right-to-left");
  await stopped(visitor);
});

test("an overwrite shows what goes away", async () => {
  const { page, context } = await asked("OVERWRITE", ".dock .patch");
  const shown = await page.locator(".dock").innerText();
  for (const expected of ["Overwrite notes.txt?", "−8", "line 8"]) assert.ok(shown.includes(expected), `${expected} is not in\n${shown}`);
  assert.match(await page.locator(".tool[data-kind=write] .tool-head").innerText(), /\+1\s+−8/);
  await shot(page, "approval-overwrite");
  assert.deepEqual(await violations(page), []);
  await answer(page, /Allow once/);
  await untilMark(page, "idle");
  await context.close();
});

test("always allows what its button says, and that can be revoked", async () => {
  const visitor = await asked("ALWAYS", ".dock .always-first");
  const { page } = visitor;
  assert.deepEqual(await page.locator(".dock .always-label").allInnerTexts(), ["Always allow exactly: touch one in this conversation"]);
  await shot(page, "approval-always");
  assert.deepEqual(await violations(page), []);
  await answer(page, /Always allow exactly: touch one/);
  await page.locator(".dock .command", { hasText: "touch two" }).waitFor();
  await page.locator(".grants li", { hasText: "touch one" }).first().waitFor();
  await shot(page, "grants");
  const count = await page.locator(".grants li").count();
  await page.getByRole("button", { name: /^Revoke: / }).first().click();
  await page.waitForFunction((before) => document.querySelectorAll(".grants li").length === before - 1, count);
  await stopped(visitor);
});
