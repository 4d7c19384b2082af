// What a conversation changed, in a real Chromium: reviewed, reverted, undone and committed in a real repository.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { framesWhileScrolling, share } from "./frames.mjs";
import { begin, launchBrowser, openPage, shot, untilMark, violations } from "./page.mjs";
import { startServer } from "./server.mjs";

const NODES_MAX = 3_000;
const FRAME_MS = 16;
const LINES = 50_000;
const text = (said) => ({ text: said, pieces: 2 });
const call = (tool, input) => ({ tool, input });
const turn = (...parts) => parts;
const numbered = (count, word) => Array.from({ length: count }, (_, index) => `// ${word} ${index + 1}\n`).join("");

const TOTAL = `type Totals = { goods: Money; due: Money }

export function totals(cart: Cart): Totals {
  const goods = sum(cart.lines.map(price))
  const due = goods + cart.shipping
  return { goods, due }
}
${numbered(24, "a note on money")}
// Payment
export function applyDiscount(cart: Cart) {
  return cart.discount?.amount ?? 0
}

function round(value: number): Money {
  return Math.round(value * 100) / 100
}
`;
const CHECKOUT = `export async function pay(cart: Cart) {
  const due = totals(cart).due - applyDiscount(cart)
  if (due === 0) return free(cart)
  return stripe.charge(due * 100, cart.currency)
}

${numbered(50, "step")}`;
const GIFT = `export function applyGiftCards(cart: Cart): Money {
  // A card pays for goods and shipping, never for another card.
  const payable = cart.lines.filter((line) => line.kind !== "gift")
  let left = sum(payable.map(price)) + cart.shipping
  for (const card of cart.cards) {
    left -= Math.min(card.balance, left)
  }
  return left
}
`;

const PICTURES = {
  red: "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==",
  green: "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAD0lEQVR4nGNg+M8AQhAKABvyA/1tVLjHAAAAAElFTkSuQmCC",
};
/** Two by two pixels of one colour. */
const picture = (colour) => Buffer.from(PICTURES[colour], "base64");

/** Two folders with the same files, one of them a repository, and a model that changes them in two turns. */
function workplace() {
  const root = mkdtempSync(join(tmpdir(), "harness-changes-"));
  const edit = (filePath, oldString, newString) => call("edit", { filePath, oldString, newString });
  const read = (filePath) => call("read", { filePath });
  const turns = [
    turn(text("I read the code first."), read("src/cart/total.ts"), read("src/api/checkout.ts")),
    turn(
      edit("src/cart/total.ts", "  const due = goods + cart.shipping\n", "  const gifts = applyGiftCards(cart)\n  const due = goods + cart.shipping - gifts\n"),
      edit("src/cart/total.ts", "  return Math.round(value * 100) / 100\n", "  return Math.trunc(value * 100 + 0.5) / 100\n"),
      call("write", { filePath: "src/cart/gift.ts", content: GIFT }),
      edit("src/api/checkout.ts", "totals(cart).due - applyDiscount(cart)", "totals(cart).due"),
    ),
    turn(text("Gift cards pay for goods.")),
    turn(call("write", { filePath: "package-lock.json", content: `{\n${numbered(400, "lock")}}\n` }), call("write", { filePath: "src/cart/gift.test.ts", content: 'test("pays", () => expect(left).toBe(0))\n' })),
    turn(text("And there are tests.")),
  ];
  const other = [
    turn(read("src/old.ts"), read("src/spaces.ts")),
    turn(
      call("apply_patch", { patch: "*** Begin Patch\n*** Update File: src/old.ts\n*** Move to: src/new.ts\n@@\n-export const one = 1\n+export const one = 2\n*** End Patch\n" }),
      edit("src/spaces.ts", "  return 1\n", "      return  1\n"),
      call("bash", { command: "cp green.png logo.png" }),
    ),
    turn(text("Moved.")),
  ];
  const large = [turn(call("write", { filePath: "large.ts", content: Array.from({ length: LINES }, (_, index) => `export const value${index} = ${index}\n`).join("") })), turn(text("Written."))];
  const model = join(root, "model.json");
  writeFileSync(model, JSON.stringify({ pause_ms: 3, turns: [turn(text("What?"))], lanes: { gift: { marker: "GIFT", turns }, plain: { marker: "PLAIN", turns }, large: { marker: "LARGE", turns: large }, other: { marker: "OTHER", turns: other } } }));
  for (const name of ["repository", "plain"])
    for (const [file, content] of Object.entries({ "src/cart/total.ts": TOTAL, "src/api/checkout.ts": CHECKOUT })) {
      mkdirSync(dirname(join(root, name, file)), { recursive: true });
      writeFileSync(join(root, name, file), content);
    }
  const repository = join(root, "repository");
  const files = { "src/old.ts": "export const one = 1\n", "src/spaces.ts": "function one() {\n  return 1\n}\n", "logo.png": picture("red"), "green.png": picture("green") };
  for (const [name, content] of Object.entries(files)) writeFileSync(join(repository, name), content);
  const git = (...words) => execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@example.org", ...words], { cwd: repository, encoding: "utf8" }).trim();
  git("init", "-q", "-b", "main");
  git("config", "user.name", "A");
  git("config", "user.email", "a@example.org");
  git("add", "-A");
  git("commit", "-q", "-m", "first");
  git("checkout", "-q", "-b", "gift-cards");
  return { root, repository, plain: join(root, "plain"), model: `scripted/${model}`, git };
}

const place = workplace();
let server, browser, origin, storageState, conversation;

const opened = async (options = {}) => openPage(browser, origin, { storageState, ...options });
const inRepository = (name) => readFileSync(join(place.repository, name), "utf8");

before(async () => {
  server = await startServer({ folder: place.repository, model: place.model });
  origin = new URL(server.link);
  browser = await launchBrowser();
  const visitor = await openPage(browser, origin);
  await visitor.page.goto(server.link);
  await visitor.page.waitForSelector(".frame");
  storageState = await visitor.context.storageState();
  await visitor.context.close();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** A conversation whose agent never asks, until its run has ended. */
async function run(page, prompt, folder) {
  await page.route("**/api/sessions", (route) =>
    route.request().method() === "POST" ? route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), permissionMode: "fullAuto" }) }) : route.continue(),
  );
  await page.goto(origin.origin);
  await begin(page, { prompt, model: place.model, folder });
  await page.locator(".changes-button").waitFor({ timeout: 60_000 });
  await untilMark(page, "idle");
}

async function say(page, message) {
  await page.fill(".composer-input", message);
  await page.locator(".composer-input").press("Enter");
  await page.getByText("And there are tests.", { exact: true }).waitFor();
  await untilMark(page, "idle");
}

test("the header says how much was changed, and the changes open beside the conversation", async () => {
  const { page, troubles } = await opened();
  await run(page, "GIFT: add gift cards to the basket", place.repository);
  await say(page, "Write tests for it, and do not touch the voucher code");
  conversation = page.url();
  const button = page.locator(".changes-button");
  await button.waitFor();
  assert.match(await button.innerText(), /\+\d+\s+−3/);
  await page.locator(".composer-input").blur();
  await page.keyboard.press("d");
  await page.waitForSelector(".changes-panel .changes-line");
  assert.match(page.url(), /\?changes/);
  const files = await page.locator(".changes-file").allInnerTexts();
  assert.equal(files.length, 5, files.join("\n"));
  await page.locator(".changes-file", { hasText: "total.ts" }).click();
  await page.waitForSelector(".changes-line[data-kind=added] mark");
  assert.deepEqual(await page.locator(".changes-panel mark").allInnerTexts().then((marks) => marks.some((mark) => mark.includes("gifts"))), true);
  await shot(page, "changes-beside");
  assert.deepEqual(await violations(page), []);
  await page.route(/\/changes\?/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), moreFiles: 6 } });
  });
  await page.reload();
  await page.getByText("5 files by edits; 6 more files are not committed").waitFor();
  assert.match(await button.innerText(), /≥\s*\+\d+/, "commands changed more than is counted");
  assert.deepEqual(troubles, []);
  await page.context().close();
});

test("a turn is undone with what its commands did, and brought again", async () => {
  const { page, troubles } = await opened();
  await run(page, "OTHER: move it and change the logo", place.repository);
  await page.locator(".composer-input").blur();
  await page.keyboard.press("d");
  const undo = page.getByRole("button", { name: "Undo turn 1…" });
  await undo.click();
  const plan = page.locator(".turn-undo .changes-effects");
  await plan.waitFor();
  assert.match(await plan.innerText(), /logo\.png: as it was[\s\S]*src\/new\.ts: removed[\s\S]*src\/old\.ts: comes back/);
  await shot(page, "undo-turn");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("button", { name: "Undo turn 1", exact: true }).click();
  await page.getByText("Turn 1: 4 files taken back.").waitFor();
  assert.equal(inRepository("src/old.ts"), "export const one = 1\n");
  assert.deepEqual(readFileSync(join(place.repository, "logo.png")), picture("red"));
  await page.getByRole("button", { name: "Redo turn 1…" }).click();
  await page.getByRole("button", { name: "Redo turn 1", exact: true }).click();
  await page.getByText("Turn 1: 4 files brought back.").waitFor();
  assert.equal(existsSync(join(place.repository, "src/old.ts")), false);
  place.git("checkout", "-q", "--", "logo.png", "src/old.ts", "src/spaces.ts"); // not what the first conversation has changed
  place.git("clean", "-fdq", "src/new.ts");
  assert.deepEqual(troubles, []);
  await page.context().close();
});

test("who goes on from before a message may take its files back, too", async () => {
  const { page, troubles } = await opened();
  await run(page, "OTHER: move it and change the logo", place.repository);
  await page.locator(".message.user").first().hover();
  await page.getByLabel("Rephrase").first().click();
  await page.getByText("Since then 4 files were changed.").waitFor();
  assert.equal(existsSync(join(place.repository, "src/old.ts")), false);
  await page.getByRole("button", { name: "Take them back, too…" }).click();
  const plan = page.locator(".start .changes-effects");
  await plan.waitFor();
  assert.match(await plan.innerText(), /src\/old\.ts: comes back/);
  await shot(page, "rephrase-files");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("button", { name: "Undo turn 1", exact: true }).click();
  await page.getByText("Turn 1: 4 files taken back.").waitFor();
  assert.equal(inRepository("src/old.ts"), "export const one = 1\n");
  assert.deepEqual(troubles, []);
  await page.context().close();
});

test("the review has files, turns and git; keys move, mark as seen and change how it is shown", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(`${conversation}/review`);
  await page.waitForSelector(".changes-review .changes-line");
  assert.equal(await page.locator(".changes-diff[data-split]").count() > 0, true, "side by side where there is room");
  await shot(page, "review");
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("j");
  await page.waitForFunction(() => decodeURIComponent(location.hash).includes("file=") );
  await page.keyboard.press("v");
  assert.match(await page.locator(".changes-side h2").first().innerText(), /5 files · 1 seen/);
  await page.keyboard.press("|");
  await page.waitForFunction(() => !document.querySelector(".changes-diff[data-split]"));
  await page.keyboard.press("]");
  await page.waitForSelector(".changes-line[data-cursor]");
  await page.locator(".changes-section", { hasText: "package-lock.json" }).getByText("Written by a program").waitFor();
  await page.locator(".changes-scope", { hasText: "2 ·" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".changes-file").length === 2);
  await page.locator(".changes-scope", { hasText: "Not committed" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".changes-file").length === 5);
  await page.locator(".changes-scope", { hasText: "Against main" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".changes-file").length === 5);
  await page.keyboard.press("Escape");
  await page.waitForSelector(".composer-input");
  assert.deepEqual(troubles, []);
  await context.close();
});

test("the review in the dark", async () => {
  const { page, context, troubles } = await opened({ colorScheme: "dark" });
  await page.goto(`${conversation}/review`);
  await page.waitForSelector(".changes-review .changes-line");
  await shot(page, "review-dark");
  assert.deepEqual(await violations(page), []);
  await page.goto(`${conversation}/file?path=${encodeURIComponent("src/cart/total.ts")}&line=3`);
  await page.waitForSelector(".file-text .changes-line[data-cursor]");
  await shot(page, "file-dark");
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(troubles, []);
  await context.close();
});

test("a note on a line goes into the message", async () => {
  const { page, context } = await opened();
  await page.goto(`${conversation}/review?file=${encodeURIComponent("src/cart/gift.ts")}&line=4`);
  await page.waitForSelector(".changes-line[data-cursor]");
  await page.keyboard.press("m");
  await page.locator(".changes-line-note textarea").fill("What if the balance is negative?");
  await shot(page, "review-note");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("button", { name: "Add to message" }).click();
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.querySelector(".composer-input")?.value.includes("What if the balance is negative?"));
  assert.match(await page.inputValue(".composer-input"), /^src\/cart\/gift\.ts:4\n> let left/);
  await context.close();
});

test("a file is reverted with what a person wrote kept, and that is undone", async () => {
  const path = join(place.repository, "src/api/checkout.ts");
  appendFileSync(path, "// mine\n");
  const later = Date.now() / 1000 + 120;
  utimesSync(path, later, later);
  const { page, context } = await opened();
  await page.goto(`${conversation}/review`);
  const section = page.locator(".changes-section[data-path='src/api/checkout.ts']");
  await section.getByText("you changed it too").waitFor();
  await section.getByRole("button", { name: "Revert file…" }).click();
  await section.getByText("The line changed here goes back.").waitFor();
  await shot(page, "review-revert");
  assert.deepEqual(await violations(page), []);
  const changed = inRepository("src/api/checkout.ts");
  await section.getByRole("button", { name: "Revert file", exact: true }).click();
  await page.getByText("src/api/checkout.ts was reverted.").waitFor();
  assert.equal(inRepository("src/api/checkout.ts"), `${CHECKOUT}// mine\n`);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("as before the revert").waitFor();
  assert.equal(inRepository("src/api/checkout.ts"), changed);
  await context.close();
});

test("ticked files are committed, and nothing else", async () => {
  const { page, context } = await opened();
  await page.goto(`${conversation}/review`);
  await page.waitForSelector(".changes-commit textarea");
  assert.equal(await page.inputValue(".changes-commit textarea"), "GIFT: add gift cards to the basket");
  assert.equal(await page.locator(".changes-ticks label", { hasText: "checkout.ts" }).locator("input").isChecked(), false, "what a person changed too is not ticked");
  await page.fill(".changes-commit textarea", "Let gift cards pay");
  await page.locator(".changes-ticks label", { hasText: "package-lock.json" }).locator("input").uncheck();
  await page.getByRole("button", { name: "Commit 3 files" }).click();
  await page.getByText(/Committed 3 files as [0-9a-f]{7} on gift-cards/).waitFor();
  await shot(page, "review-committed");
  assert.equal(place.git("log", "-1", "--format=%s"), "Let gift cards pay");
  assert.deepEqual(place.git("show", "--name-only", "--format=").split("\n"), ["src/cart/gift.test.ts", "src/cart/gift.ts", "src/cart/total.ts"]);
  assert.match(place.git("status", "--porcelain"), /M src\/api\/checkout\.ts\n\?\? package-lock\.json/);
  await context.close();
});

test("on a narrow screen one file after the other is seen", async () => {
  const { page, context, troubles } = await opened({ viewport: { width: 390, height: 844 } });
  await page.goto(`${conversation}/review?file=${encodeURIComponent("src/cart/total.ts")}`);
  await page.waitForSelector(".changes-narrow .changes-line[data-kind=added]");
  await shot(page, "changes-390");
  assert.deepEqual(await violations(page), []);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "wider than the screen");
  const shown = () => page.locator(".changes-picker select").inputValue();
  await page.getByRole("button", { name: "Seen, next file" }).click();
  await page.waitForFunction(() => document.querySelector(".changes-picker select").value === "package-lock.json");
  await page.getByRole("button", { name: "Previous file" }).click();
  assert.equal(await shown(), "src/cart/total.ts");
  await page.goto(`${conversation}?changes`);
  const commit = page.getByRole("button", { name: /^Commit \d/ });
  await commit.waitFor();
  await shot(page, "changes-panel-390");
  assert.ok(await commit.evaluate((one) => one.getBoundingClientRect().right <= innerWidth), "a part of the button is out of sight");
  await page.goto(`${conversation}/file?path=${encodeURIComponent("src/cart/total.ts")}&line=3`);
  await page.waitForSelector(".file-text .changes-line[data-cursor]");
  await shot(page, "file-390");
  assert.deepEqual(await violations(page), []);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "wider than the screen");
  assert.deepEqual(troubles, []);
  await context.close();
});

test("a file is opened at a line, from a card and from the review, in the page and in an editor", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(conversation);
  const card = page.getByRole("group", { name: "Read src/cart/total.ts" });
  await card.waitFor();
  await card.hover();
  await card.getByRole("link", { name: "Open src/cart/total.ts" }).click();
  await page.locator(".file-text").getByText("type Totals").waitFor();
  assert.match(page.url(), /\/file\?path=src%2Fcart%2Ftotal\.ts/);
  await page.keyboard.press("Escape");
  await page.locator(".composer-input").waitFor();
  const turns = page.locator(".turn");
  await turns.locator("a").first().waitFor();
  assert.match(await turns.first().innerText(), /3 files\s+\+\d+\s+−3$/);
  await page.goto(`${conversation}/file?path=src%2Fapi%2Fcheckout.ts&line=40`);
  await page.locator(".changes-line[data-cursor]", { hasText: "// step 34" }).waitFor();
  assert.equal(await page.locator(".changes-line[data-cursor]").evaluate((line) => line.getBoundingClientRect().top > 0 && line.getBoundingClientRect().bottom < innerHeight), true);
  assert.equal(await page.getByRole("link", { name: /Open in/ }).count(), 0, "no editor was chosen");
  await shot(page, "file");
  assert.deepEqual(await violations(page), []);
  await page.goto(`${origin.origin}/#/settings`);
  await page.getByRole("combobox", { name: "Editor" }).selectOption({ label: "VS Code" });
  await shot(page, "settings-editor");
  assert.deepEqual(await violations(page), []);
  await page.goto(`${conversation}/review?file=${encodeURIComponent("src/cart/gift.ts")}&line=4`);
  await page.waitForSelector(".changes-line[data-cursor]");
  const section = page.locator(".changes-section[data-path='src/cart/gift.ts']");
  assert.equal(await section.getByRole("link", { name: "Open in VS Code" }).getAttribute("href"), `vscode://file${place.repository}/src/cart/gift.ts:4`);
  await section.getByRole("link", { name: "Open file" }).click();
  await page.locator(".file-text .changes-line[data-cursor]", { hasText: "let left" }).waitFor();
  await page.goto(`${conversation}/file?path=${encodeURIComponent("../../etc/passwd")}`);
  await page.getByText("is not in the folder of the conversation").waitFor();
  assert.deepEqual(troubles, []);
  await context.close();
});

test("a renamed file is put back, spaces can be ignored, and pictures stand beside each other", async () => {
  const { page, context, troubles } = await opened();
  await run(page, "OTHER: move it", place.repository);
  await page.goto(`${page.url()}/review`);
  const moved = page.locator(".changes-section[data-path='src/new.ts']");
  await moved.getByText("src/old.ts → src/new.ts").waitFor();
  await moved.getByRole("button", { name: "Revert file…" }).click();
  await moved.getByText("The file is src/old.ts again. The line changed here goes back.").waitFor();
  await moved.getByRole("button", { name: "Revert file", exact: true }).click();
  await page.getByText("src/new.ts was reverted.").waitFor();
  assert.equal(inRepository("src/old.ts"), "export const one = 1\n");
  assert.equal(existsSync(join(place.repository, "src/new.ts")), false);
  const spaces = page.locator(".changes-section[data-path='src/spaces.ts']");
  await spaces.locator("[data-kind=added]").first().waitFor();
  await page.keyboard.press("s");
  await spaces.getByText("Only spaces differ.").waitFor();
  await page.getByRole("button", { name: "Ignore spaces" }).click();
  await spaces.locator("[data-kind=added]").first().waitFor();
  await page.locator(".changes-scope", { hasText: "Not committed" }).click();
  const logo = page.locator(".changes-section[data-path='logo.png'] canvas");
  await logo.nth(1).waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll(".changes-section[data-path='logo.png'] canvas")].every((one) => one.width === 2));
  const colours = await logo.evaluateAll((found) => found.map((one) => [...one.getContext("2d").getImageData(0, 0, 1, 1).data].slice(0, 3)));
  assert.deepEqual(colours, [[255, 0, 0], [0, 255, 0]]);
  await shot(page, "review-pictures");
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(troubles, []);
  await context.close();
});

test("without git the log is enough: a new file is reverted in a plain folder", async () => {
  const { page, context } = await opened();
  await run(page, "PLAIN: the same without git", place.plain);
  await page.locator(".changes-button").click();
  await page.locator(".changes-file", { hasText: "gift.ts" }).click();
  const section = page.locator(".changes-section");
  await section.getByRole("button", { name: "Revert file…" }).click();
  await section.getByText("The file is deleted: it was made here").waitFor();
  await section.getByRole("button", { name: "Revert file", exact: true }).click();
  await page.getByText("src/cart/gift.ts was reverted.").waitFor();
  assert.equal(existsSync(join(place.plain, "src/cart/gift.ts")), false);
  assert.equal(await page.getByRole("button", { name: /Commit/ }).count(), 0);
  await page.getByRole("button", { name: "Revert turn 1…" }).click();
  await page.getByText("src/cart/gift.ts: Cannot be reverted: it is as it was before.").waitFor();
  await page.getByRole("button", { name: "Revert turn 1", exact: true }).click();
  await page.getByText("2 files of turn 1 reverted.").waitFor();
  assert.equal(readFileSync(join(place.plain, "src/cart/total.ts"), "utf8"), TOTAL);
  assert.equal(readFileSync(join(place.plain, "src/api/checkout.ts"), "utf8"), CHECKOUT);
  await shot(page, "changes-plain");
  await context.close();
});

test("a diff of 50,000 lines is scrolled to its end in few nodes", async (t) => {
  const { page, context } = await opened();
  await run(page, "LARGE: write it", place.plain);
  await page.goto(`${page.url()}/review`);
  await page.waitForSelector(".changes-review .changes-line");
  await page.waitForFunction((count) => document.querySelector(".changes-diff")?.getAttribute("aria-rowcount") >= count, LINES, { timeout: 60_000 });
  const frames = await framesWhileScrolling(page, ".changes-scroll");
  await page.evaluate(() => {
    const scroller = document.querySelector(".changes-scroll");
    scroller.scrollTop = scroller.scrollHeight;
  });
  await page.getByText(`value${LINES - 1} = `).waitFor();
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  t.diagnostic(`${nodes} nodes, frames of ${share(frames, 0.5).toFixed(1)} ms, 95 of 100 within ${share(frames, 0.95).toFixed(1)} ms`);
  assert.ok(nodes <= NODES_MAX, `${nodes} nodes`);
  assert.ok(share(frames, 0.5) <= FRAME_MS, `${share(frames, 0.5)} ms`);
  await context.close();
});
