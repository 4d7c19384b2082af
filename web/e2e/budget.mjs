// Limits in the page: set in the settings, shown with what is left, and a conversation that is asked at one.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { begin, launchBrowser, openPage, shot, violations } from "./page.mjs";
import { startServer } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "harness-budget-"));
const USED = { type: "usage", inputTokens: 1_000_000, outputTokens: 0 };
const script = join(folder, "paid.json");
const model = `scripted/${script}`;
let server, browser, origin, storageState;

before(async () => {
  const answers = [[{ type: "tool_call", name: "list", input: {} }, USED], [{ type: "text", content: "It is done." }, USED]];
  writeFileSync(script, JSON.stringify({ goes_by: "conversation", responses: answers.map((events) => ({ events })) }));
  server = await startServer({
    folder,
    model,
    prepare: (home) => {
      mkdirSync(join(home, ".config", "harness"), { recursive: true });
      writeFileSync(join(home, ".config", "harness", "config.toml"), `[prices."${model}"]\ninput = 1.0\noutput = 1.0\n`);
    },
  });
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

test("a limit is set, a conversation asks at it and is answered, and the usage says what is left", async () => {
  const { page, context, troubles } = await openPage(browser, origin, { storageState });
  await page.goto(`${origin.origin}/#/settings`);
  const day = page.getByLabel("A day", { exact: true });
  await day.fill("much");
  await page.getByText("an amount of dollars, or nothing").waitFor();
  await day.fill("1");
  await day.press("Enter");
  await page.getByText("Saved.").waitFor();
  assert.equal(await day.inputValue(), "$1.00");
  assert.deepEqual(await violations(page), []);

  await begin(page, { prompt: "Look around", model, folder });
  await page.goto(`${origin.origin}/#/`);
  const ask = page.locator(".ask").filter({ hasText: "Today's limit of $1.00 is reached ($1.00 spent). Continue?" });
  await ask.waitFor();
  await page.waitForTimeout(500);
  await ask.getByText("$1.00 of $1.00 spent today").waitFor();
  await ask.getByRole("link", { name: "Change the limit" }).waitFor();
  assert.deepEqual(await violations(page), []);
  await shot(page, "budget-asks");
  await ask.getByRole("button", { name: "Continue for $0.25 more" }).click();
  await page.getByText("Answered: Continue for $0.25 more").waitFor();

  await page.goto(`${origin.origin}/#/usage`);
  await page.getByText("reached: runs ask before they continue").waitFor();
  assert.match(await page.locator(".usage-limit").first().innerText(), /\$2\.00 of \$1\.00/);
  assert.match(await page.locator(".usage-outcomes tbody").innerText(), /Harness agent\s+1\s+1\s+0/);
  await shot(page, "budget-usage");
  assert.deepEqual(troubles, []);
  await context.close();
});
