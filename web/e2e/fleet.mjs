// Fleets on the page, in a real Chromium: followed while they run, looked into, compared, stopped and continued.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launchBrowser, openPage, shot, violations } from "./page.mjs";
import { startServer } from "./server.mjs";

const TASKS = ["total", "readme", "<b>greet</b>"];
const NODES_MAX = 3_000;
const CODE = "def total(items):\n    return sum(price for price, count in items)\n\n\ndef other():\n    return 0\n";

/** A small project, and two models: one solves two tasks of three, the other one of them. */
function workplace() {
  const folder = mkdtempSync(join(tmpdir(), "harness-fleet-"));
  const write = (name, text) => writeFileSync(join(folder, name), text);
  mkdirSync(join(folder, "shop"));
  write("shop/cart.py", CODE);
  const bash = (command) => ({ tool: "bash", input: { command } });
  const edit = (to) => ({ tool: "edit", input: { file_path: "cart.py", old_string: "sum(price for price, count in items)", new_string: to } });
  const used = { usage: { input: 2_000, output: 60 } };
  const lane = (marker, ...turns) => ({ marker, turns: [...turns, [{ text: "Done." }, used]] });
  const model = (name, ...lanes) => write(`${name}.json`, JSON.stringify({ turns: [[{ text: "Nothing to do." }]], lanes: Object.fromEntries(lanes.map((one, index) => [`lane${index}`, one])) }));
  const look = [
    [bash("ls; sleep 0.4"), used],
    [{ tool: "read", input: { file_path: "cart.py" } }, used],
  ];
  model("careful", lane("TOTAL", ...look, [edit("sum(price * count for price, count in items)"), used], [bash("grep -n count cart.py"), used]), lane("README", ...look, [{ tool: "write", input: { file_path: "README.md", content: "# Shop\n" } }, used]), lane("GREET", ...look));
  model("hasty", lane("TOTAL", ...look, [edit("sum(count for price, count in items)"), used]), lane("README", [{ tool: "write", input: { file_path: "README.md", content: "Shop\n" } }, used]), lane("GREET", ...look));
  const task = (id, marker, check) => `[[task]]\nid = ${JSON.stringify(id)}\nprompt = "${marker}: do it."\nworkspace = "shop"\ncheck = ${JSON.stringify(check)}\n`;
  const agents = ["careful", "hasty"].map((name) => `{ name = "${name}", agent = "native", model = "scripted/${name}.json" }`).join(", ");
  write(
    "plan.toml",
    `repeats = 2\nbudget_usd = 3.0\nagents = [${agents}]\n${task(TASKS[0], "TOTAL", "grep -q 'price \\* count' cart.py")}${task(TASKS[1], "README", "test -f README.md")}${task(TASKS[2], "GREET", "echo no greeting; exit 1")}`,
  );
  return folder;
}

let browser, server, folder, origin, page, troubles;
before(async () => {
  folder = workplace();
  server = await startServer({ folder, model: `scripted/${join(folder, "careful.json")}` });
  browser = await launchBrowser();
  origin = new URL(server.link);
  ({ page, troubles } = await openPage(browser, origin));
  await page.goto(server.link);
  await page.waitForSelector(".side");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const go = async (address, selector) => {
  await page.goto(`${origin.origin}/${address}`);
  await page.waitForSelector(selector);
};
const state = () => page.locator(".fleet-state").innerText();
const untilState = (words) => page.waitForFunction((wanted) => document.querySelector(".fleet-state")?.innerText.trim() === wanted, words, { timeout: 60_000, polling: 50 });
const marks = (one) => page.locator(`.fleet-mark[data-state="${one}"]`);

test("without a fleet the page says how to start one", async () => {
  await go("#/fleet", ".fleet-empty");
  const commands = await page.locator(".fleet-command code").allInnerTexts();
  assert.ok(commands.every((one) => one.startsWith("harness fleet ")), commands.join("\n"));
  assert.equal(await page.getByRole("button", { name: "Copy the command" }).count(), 2);
  assert.deepEqual(await violations(page), []);
  await shot(page, "fleet-empty");
});

test("a fleet is followed while it runs, and the page asks for nothing", async () => {
  await go("#/fleet", ".fleet-empty");
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const running = server.run(["fleet", "run", "plan.toml", "--name", "shop", "-j", "2", "--trust"], folder);
  await page.waitForSelector('.fleet-row[data-fleet="shop"]');
  await page.click('.fleet-row[data-fleet="shop"]');
  await page.waitForSelector(".fleet-run");
  assert.equal(await state(), "Running");
  assert.equal(await page.locator(".fleet-mark").count(), 12);
  await page.waitForFunction(() => [...document.querySelectorAll("[data-activity]")].some((one) => one.textContent.includes("ls; sleep")), null, { timeout: 30_000, polling: 20 });
  assert.deepEqual(await violations(page), []);
  await shot(page, "fleet-running");
  await untilState("Done");
  await running;
  assert.deepEqual([await marks("passed").count(), await marks("failed").count(), await page.locator(".fleet-run").count()], [6, 6, 0]);
  assert.deepEqual([...new Set(asked.filter((path) => path.startsWith("/api/fleets")))], ["/api/fleets/shop/compare"]);
});

test("every mark has words, and the keyboard moves over them", async () => {
  await go("#/fleet/shop", ".fleet-mark");
  const first = page.locator(".fleet-mark").first();
  assert.match(await first.getAttribute("aria-label"), /^total · careful · run 1: passed, \$0\.00, [\d.]+ s$/);
  assert.match(await first.getAttribute("title"), /^passed, /);
  assert.equal(await page.locator(".fleet-mark[tabindex='0']").count(), 1);
  await first.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("l");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".fleet-attempt");
  assert.match(page.url(), /case=[0-9a-f]{12}/);
  assert.equal(await page.locator("#fleet-case").innerText(), "readme · careful · run 2");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".fleet-case", { state: "detached" });
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label")?.startsWith("readme · careful · run 2"));
  await page.locator(".fleet-mark").nth(8).click();
  await page.waitForSelector(".fleet-attempt");
  assert.match(await page.locator(".fleet-case").innerText(), /the check did not pass[\s\S]*no greeting/);
  assert.match(await page.locator("#fleet-case").innerText(), /^<b>greet<\/b>/);
});

test("a case leads to its conversation and its changes", async () => {
  await go("#/fleet/shop", ".fleet-mark");
  await page.locator(".fleet-mark").first().click();
  await page.getByRole("link", { name: "Open conversation" }).click();
  await page.waitForSelector(".entry");
  await page.goBack();
  await page.getByRole("link", { name: "Changes" }).click();
  await page.waitForSelector(".changes-line");
  await page.goBack();
  await page.waitForSelector(".fleet-case");
});

test("two attempts at a task stand side by side", async () => {
  await go("#/fleet/shop", ".fleet-mark");
  await page.locator(".fleet-mark").first().click();
  await page.getByLabel("Show another attempt at this task beside it").selectOption({ label: "total · hasty · run 1" });
  await page.waitForSelector(".fleet-steps");
  const sides = page.locator(".fleet-side");
  assert.match(await sides.nth(0).innerText(), /price \* count/);
  assert.match(await sides.nth(1).innerText(), /sum\(count for/);
  assert.match(await page.locator(".fleet-wide").innerText(), /The same for 3 steps, then:/);
  assert.deepEqual(await violations(page), []);
  await page.locator("#fleet-beside").scrollIntoViewIfNeeded();
  await shot(page, "fleet-beside");
});

test("variants are compared in plain words", async () => {
  await go("#/fleet/shop", ".fleet-verdict");
  const words = await page.locator(".fleet-verdict").innerText();
  assert.match(words, /^No clear winner\. careful passes 67 %, hasty 33 %: −33 % for hasty, between .* on 3 tasks\. About \d+ tasks would be enough/);
  await page.getByLabel("Baseline").selectOption("hasty");
  await page.waitForFunction(() => document.querySelector(".fleet-verdict")?.innerText.includes("+33 % for careful"));
  assert.equal(await page.locator(".fleet-data .fleet-interval").count(), 2);
  assert.match(await page.locator(".fleet-data").innerText(), /pass@2[\s\S]*careful[\s\S]*67 %/);
  await page.locator("#fleet-compare").scrollIntoViewIfNeeded();
  await shot(page, "fleet-compared");
});

test("the report and the cases can be saved", async () => {
  await go("#/fleet/shop", ".fleet-mark");
  for (const [button, name] of [
    ["HTML", "shop-report.html"],
    ["CSV", "shop-cases.csv"],
  ]) {
    const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: button }).click()]);
    assert.equal(saved.suggestedFilename(), name);
  }
});

test("a fleet is stopped and continued from the page", async () => {
  const running = server.run(["fleet", "run", "plan.toml", "--name", "again", "-j", "1", "--trust"], folder).catch((error) => error.code);
  await go("#/fleet", '.fleet-row[data-fleet="again"]');
  await page.click('.fleet-row[data-fleet="again"]');
  await page.getByRole("button", { name: "Stop…" }).click();
  await page.getByRole("button", { name: /^Stop( after the case that runs)?$/ }).click();
  await untilState("Stopped");
  assert.equal(await running, 130);
  const waiting = await marks("waiting").count();
  assert.ok(waiting > 0);
  await page.getByRole("button", { name: "Resume…" }).click();
  assert.deepEqual(await violations(page), []);
  await page.getByLabel("Budget $").fill("2");
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await untilState("Running");
  await untilState("Done");
  assert.equal(await marks("waiting").count(), 0);
});

test("a fleet that cannot be read is one row with its reason", async () => {
  const place = join(server.home, ".local/share/harness/fleets/torn");
  mkdirSync(place);
  writeFileSync(join(place, "plan.json"), '{"name": "<img src=x onerror=alert(1)>');
  await go("#/fleet", '.fleet-row[data-fleet="torn"]');
  assert.match(await page.locator('.fleet-row[data-fleet="torn"]').innerText(), /Cannot be read[\s\S]*plan of the fleet torn/);
  assert.equal(await page.locator('.fleet-row[data-fleet="shop"]').count(), 1);
  assert.deepEqual(await violations(page), []);
  for (const name of ["torn", "nothing", "..%2F..", "%3Cscript%3E"]) {
    await go(`#/fleet/${name}`, ".fleet-note.problem");
    assert.match(await page.locator(".fleet-note.problem").innerText(), /cannot be read|no fleet/);
  }
});

test("thousands of cases are few nodes", async () => {
  const tasks = Array.from({ length: 1_500 }, (_, index) => `[[task]]\nid = "task ${index}"\nprompt = "x"\n`).join("");
  writeFileSync(join(folder, "large.toml"), `repeats = 3\nbudget_usd = 0.000001\nagents = [{ name = "careful", agent = "native", model = "scripted/careful.json" }]\n[limits]\nrun_budget_usd = 1\n${tasks}`);
  await server.run(["fleet", "run", "large.toml", "--name", "large", "--trust"], folder).catch((error) => assert.equal(error.code, 3));
  await go("#/fleet/large", ".fleet-mark");
  assert.equal(await state(), "Budget reached");
  assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < NODES_MAX);
  await page.locator(".fleet-mark").first().focus();
  await page.keyboard.press("End");
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label")?.startsWith("task 1499"));
  assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < NODES_MAX);
});

test("light, dark and narrow pass axe, and nothing scrolls sideways", async () => {
  for (const theme of ["light", "dark"])
    for (const [width, height] of [
      [1440, 900],
      [390, 844],
    ]) {
      await page.setViewportSize({ width, height });
      await page.evaluate((name) => localStorage.setItem("harness.theme", name), theme);
      await go("#/fleet", ".fleet-row");
      await page.reload();
      await page.waitForSelector(".fleet-row");
      assert.deepEqual(await violations(page), [], `list, ${theme}, ${width}`);
      await shot(page, `fleet-list-${theme}-${width}`);
      await page.click('.fleet-row[data-fleet="shop"]');
      await page.waitForSelector(".fleet-verdict");
      await page.locator(".fleet-mark").nth(2).click();
      await page.waitForSelector(".fleet-attempt");
      assert.deepEqual(await violations(page), [], `one, ${theme}, ${width}`);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
      await shot(page, `fleet-one-${theme}-${width}`);
    }
  assert.deepEqual(troubles, []);
});
