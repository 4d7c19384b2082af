// Sessions that agents have stored themselves, in a real Chromium: listed, searched, read, followed, exported, handed over.
import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { launchBrowser, openPage, shot, violations } from "./page.mjs";
import { workplace } from "./scripts.mjs";
import { startServer } from "./server.mjs";

const HOME = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "tests", "histories", "homes", "claude", "2.1.197", "tools.json.gz");
const place = workplace();
let server, browser, origin, storageState, file, home, id;

/** What a real Claude Code left in its home, with the folder of this test as its project. */
function storeSession(folder) {
  home = folder;
  const { files } = JSON.parse(gunzipSync(readFileSync(HOME)).toString());
  for (const [name, text] of Object.entries(files)) {
    if (!name.endsWith(".jsonl")) continue;
    const project = /"cwd":"([^"]+)"/.exec(text)[1];
    file = join(folder, name);
    id = name.split("/").at(-1).replace(".jsonl", "");
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text.replaceAll(project, place.folder).replaceAll("Please do the work", "LONG: please do the work"));
  }
}

const opened = (options = {}) => openPage(browser, origin, { storageState, ...options });

before(async () => {
  server = await startServer({ folder: place.folder, model: place.paced, prepare: storeSession });
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

test("a session of an agent's own history is listed with a mark, and found by its messages and calls", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(origin.origin);
  await page.waitForSelector(".history-mark");
  assert.equal(await page.locator(".history-mark .wide-only").first().innerText(), "in Claude Code’s own history");
  await shot(page, "histories-home");
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("/");
  await page.locator(".search input").fill("look");
  await page.waitForSelector(".found .passage");
  assert.match(await page.locator(".found").innerText(), /Let me look/);
  await page.locator(".search input").fill("agent:claude command:echo");
  await page.waitForFunction(() => document.querySelector(".found .passage b, .empty"));
  await shot(page, "histories-search");
  assert.deepEqual(troubles, []);
  await context.close();
});

test("it is read as a conversation with its changes, can be exported, and is never changed", async () => {
  const { page, context, troubles } = await opened();
  const stored = readFileSync(file);
  await page.goto(`${origin.origin}/#/c/${encodeURIComponent(`claude:${id}`)}`);
  await page.waitForSelector(".stored-bar");
  await page.waitForSelector(".message.assistant");
  assert.match(await page.locator(".stored-bar").innerText(), /In Claude Code’s own history: read here, never changed/);
  assert.equal(await page.locator(".composer-input").count(), 0);
  await shot(page, "histories-conversation");
  assert.deepEqual(await violations(page), []);
  await page.locator(".export summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Messages and calls" }).click()]);
  assert.match(download.suggestedFilename(), /^claude-.*\.html$/);
  const text = readFileSync(await download.path(), "utf8");
  assert.ok(text.startsWith("<!doctype html>") && !/<script/i.test(text));
  assert.deepEqual(readFileSync(file), stored);
  assert.deepEqual(troubles, []);
  await context.close();
});

test("what its agent writes meanwhile is shown, and that the agent works on it", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(`${origin.origin}/#/c/${encodeURIComponent(`claude:${id}`)}`);
  await page.waitForSelector(".message.assistant");
  const registry = join(home, ".claude", "sessions");
  mkdirSync(registry, { recursive: true });
  const start = readFileSync(`/proc/${process.pid}/stat`, "latin1").split(")").at(-1).trim().split(" ")[19];
  writeFileSync(join(registry, `${process.pid}.json`), JSON.stringify({ pid: process.pid, sessionId: id, procStart: start, status: "busy" }));
  const said = { type: "user", uuid: "11111111-0000-4000-8000-000000000001", parentUuid: null, sessionId: id, timestamp: new Date().toISOString(), cwd: place.folder, version: "2.1.197", message: { role: "user", content: "And now something while you watch" } };
  appendFileSync(file, `${JSON.stringify(said)}\n`);
  await page.getByText("And now something while you watch").first().waitFor();
  await page.getByText("works on it now, in its own screen").waitFor();
  const answered = { type: "assistant", uuid: "11111111-0000-4000-8000-000000000002", parentUuid: said.uuid, sessionId: id, timestamp: new Date().toISOString(), cwd: place.folder, version: "2.1.197", message: { id: "msg_live", type: "message", role: "assistant", model: "claude-opus-4-5", content: [{ type: "text", text: "I am watched." }], stop_reason: "end_turn", usage: { input_tokens: 1, output_tokens: 1 } } };
  appendFileSync(file, `${JSON.stringify(answered)}\n`);
  await page.getByText("I am watched.").first().waitFor();
  await page.goto(origin.origin);
  await page.locator("section[aria-label=Running] .history-mark").first().waitFor();
  await shot(page, "histories-live");
  writeFileSync(join(registry, `${process.pid}.json`), "{}");
  await page.locator("section[aria-label=Earlier] .history-mark").first().waitFor();
  assert.deepEqual(troubles, []);
  await context.close();
});

test("another agent continues it, after the page has shown what it gets and what it does not", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(`${origin.origin}/#/c/${encodeURIComponent(`claude:${id}`)}`);
  await page.getByRole("link", { name: "Hand over to…" }).click();
  await page.getByRole("radio", { name: /Harness agent/ }).check({ force: true });
  await page.waitForSelector(".handover");
  assert.match(await page.locator(".handover").innerText(), /Not handed over/);
  await shot(page, "histories-hand-over");
  assert.deepEqual(await violations(page), []);
  await page.fill(".start-prompt", "Tell it, please");
  await page.getByRole("button", { name: "Another model…" }).click();
  await page.getByRole("textbox", { name: "Model", exact: true }).fill(place.paced);
  await page.locator(".start-prompt").press("Control+Enter");
  await page.waitForFunction(() => !window.location.hash.includes("claude%3A") && document.querySelector(".column")?.innerText.includes("word3 "));
  assert.match(await page.locator(".column").innerText(), /I am watched\./);
  await page.getByRole("button", { name: "Stop" }).click();
  assert.deepEqual(troubles, []);
  await context.close();
});

test("on a phone it has its mark, and what can be done with it", async () => {
  const { page, context, troubles } = await opened({ viewport: { width: 390, height: 844 } });
  await page.goto(`${origin.origin}/#/c/${encodeURIComponent(`claude:${id}`)}`);
  await page.waitForSelector(".stored-bar");
  await page.waitForSelector(".message.assistant");
  await shot(page, "histories-conversation-390");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("button", { name: "Keep" }).click();
  await page.waitForFunction(() => !window.location.hash.includes("claude%3A"));
  await page.waitForSelector(".message.assistant");
  await page.goto(origin.origin);
  await page.waitForSelector(".item");
  await shot(page, "histories-home-390");
  assert.deepEqual(troubles, []);
  await context.close();
});
