// A folder that brings settings for an agent: shown before a conversation starts there, trusted or left out; and the wall.
import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launchBrowser, openPage, shot, violations } from "./page.mjs";
import { startServer } from "./server.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const folder = mkdtempSync(join(tmpdir(), "harness-trust-"));
const clone = join(folder, "clone");
const notes = join(folder, "notes");
const script = join(folder, "script.json");
let server, browser, origin, storageState;

const settings = (command) => {
  mkdirSync(join(clone, ".claude"), { recursive: true });
  writeFileSync(join(clone, ".claude", "settings.json"), JSON.stringify({ hooks: { SessionStart: [{ hooks: [{ type: "command", command }] }] } }));
};
/** How the program was called last. */
const callFor = () => readFileSync(notes, "utf8").trim().split("\n").map((line) => JSON.parse(line)).findLast((one) => one.arguments).arguments;

before(async () => {
  const local = join(ROOT, ".venv", "bin", "python");
  const program = `#!/bin/sh\nexport FAKE_VERSION=2.1.325 FAKE_NOTES=${notes}\nexec ${existsSync(local) ? local : "python3"} ${join(ROOT, "tests", "session", "fake_claude.py")} "$@"\n`;
  mkdirSync(join(folder, "bin"));
  writeFileSync(join(folder, "bin", "claude"), program);
  chmodSync(join(folder, "bin", "claude"), 0o755);
  process.env.PATH = `${join(folder, "bin")}:${process.env.PATH}`;
  settings("./setup.sh");
  writeFileSync(script, JSON.stringify({ responses: [{ events: [{ type: "text", content: "It is done." }] }] }));
  server = await startServer({ folder: clone, model: `scripted/${script}` });
  origin = new URL(server.link);
  browser = await launchBrowser();
  const first = await openPage(browser, origin);
  await first.page.goto(server.link);
  await first.page.waitForSelector(".home");
  storageState = await first.context.storageState();
  await first.context.close();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function ask(page, prompt) {
  await page.goto(`${origin.origin}/#/new`);
  await page.reload();
  await page.getByRole("radio", { name: /Claude Code/ }).check({ force: true });
  await page.fill(".start-prompt", prompt);
  return page.getByRole("region", { name: "Settings of this folder" });
}

const startButton = (page) => page.locator(".start-foot button[type=submit]");

test("settings that a folder brings are left out or trusted before anything starts, and asked about again when they change", async () => {
  const { page, context, troubles } = await openPage(browser, origin, { storageState });
  const note = await ask(page, "hello narrowed");
  await note.getByText("./setup.sh").waitFor();
  assert.equal(await startButton(page).isDisabled(), true);
  assert.deepEqual(await violations(page), []);
  await shot(page, "folder-trust");
  await note.getByRole("button", { name: "Run without these settings" }).click();
  await startButton(page).click();
  await page.getByText("You said", { exact: false }).first().waitFor();
  assert.match(callFor().join(" "), /--setting-sources user/);
  assert.doesNotMatch((await server.run(["trust", "list"])).stdout, /claude/);

  await (await ask(page, "hello trusted")).getByRole("button", { name: "Trust this content" }).click();
  await note.waitFor({ state: "detached" });
  assert.match((await server.run(["trust", "list"])).stdout, /clone.*claude.*trusted|claude.*clone.*trusted/s);
  await startButton(page).click();
  await page.waitForFunction(() => !document.querySelector("dialog.start"));
  await page.getByText("You said", { exact: false }).first().waitFor();
  assert.doesNotMatch(callFor().join(" "), /--setting-sources/);

  settings("./other.sh");
  await ask(page, "hello again");
  await note.getByText("have changed since you trusted them").waitFor();
  await note.getByText("./other.sh").waitFor();
  assert.equal(await startButton(page).isDisabled(), true);
  assert.deepEqual(troubles, []);
  await context.close();
});

test("a conversation is confined where that is chosen, and the log says by what", async (context_) => {
  const { page, context, troubles } = await openPage(browser, origin, { storageState });
  await page.goto(`${origin.origin}/#/new`);
  await page.getByRole("radio", { name: /Harness agent/ }).check({ force: true });
  const wall = page.getByRole("group", { name: "Confined" }).getByRole("button", { name: "To the folder" });
  await wall.waitFor();
  if (await wall.isDisabled()) return context_.skip("no sandbox here");
  await page.fill(".start-prompt", "CONFINED");
  await wall.click();
  await page.getByText(/By (namespaces|bubblewrap)|Landlock/).waitFor();
  assert.deepEqual(await violations(page), []);
  await shot(page, "confined");
  await startButton(page).click();
  await page.getByText("It is done.").waitFor();
  const store = join(server.home, ".local", "share", "harness", "sessions");
  const logs = readdirSync(store, { recursive: true }).filter((name) => name.endsWith(".ndjson")).map((name) => readFileSync(join(store, name), "utf8"));
  assert.ok(logs.some((text) => text.includes("CONFINED") && /"sandbox":\s*"(namespaces|bubblewrap|landlock)"/.test(text)));
  assert.deepEqual(troubles, []);
  await context.close();
});
