// A run that was recorded through a gateway: its model calls in the page, and another model that goes on after a step.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launchBrowser, openPage, shot, violations } from "./page.mjs";
import { startServer } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "harness-forks-"));
const script = (name, words) => {
  const path = join(folder, `${name}.json`);
  const call = { type: "tool_call", name: "write", input: { filePath: "made.txt", content: "made\n" } };
  const answers = [[{ type: "text", content: "First I write." }, call], [{ type: "text", content: words }]];
  writeFileSync(path, JSON.stringify({ goes_by: "conversation", responses: answers.map((events) => ({ events })) }));
  return `scripted/${path}`;
};
const model = script("recorded", "It is recorded.");
const other = script("other", "Another model was here.");
let server, browser, origin, storageState;

before(async () => {
  server = await startServer({ folder, model });
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

test("a recorded run goes on after a step with another model", async (t) => {
  if (!server.run) return t.skip("the server is not ours");
  await server.run(["run", "-a", "native", "--gateway", "-m", model, "-p", "Make the file.", "--permissions", "full-access"], folder);
  const { page, context, troubles } = await openPage(browser, origin, { storageState });
  await page.goto(origin.origin);
  await page.getByText("Make the file.").first().click();
  const calls = page.locator(".model-calls > li");
  await calls.nth(1).waitFor();
  assert.equal(await calls.count(), 2);
  await calls.first().locator("summary").click();
  await calls.first().locator("pre", { hasText: "Make the file." }).waitFor();
  const recorded = page.url();
  const step = page.getByLabel("Go on after step");
  assert.equal(await step.inputValue(), "2");
  await step.fill("1");
  const named = page.getByRole("textbox", { name: "with" });
  await named.fill("nobody/x");
  await page.getByRole("button", { name: "Go on", exact: true }).click();
  await page.locator(".problem").waitFor();
  assert.equal(page.url(), recorded);
  assert.deepEqual(await violations(page), []);
  await named.fill(other);
  await page.getByRole("button", { name: "Go on", exact: true }).click();
  await page.waitForURL((address) => address.href !== recorded);
  const said = page.locator(".message.assistant");
  await said.filter({ hasText: "Another model was here." }).waitFor();
  await said.filter({ hasText: "First I write." }).waitFor();
  assert.equal(await said.filter({ hasText: "It is recorded." }).count(), 0);
  assert.equal(readFileSync(join(folder, "made.txt"), "utf8"), "made\n");
  await shot(page, "fork");
  assert.deepEqual(troubles, []);
  await context.close();
});
