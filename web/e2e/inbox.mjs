// The inbox in a real Chromium: answered with keys and fingers, against the real server, and against rows that no agent makes on demand.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { ALIKE, ask, COMMAND, EARLIER, fakeInbox, FORM, MARKED, OVERWRITE, PLAN, QUESTION, row, RUNNING, TOOL } from "./inbox_rows.mjs";
import { begin, launchBrowser, openPage, shot, violations } from "./page.mjs";
import { workplace } from "./scripts.mjs";
import { startServer } from "./server.mjs";

const FIRST_SCREEN_KB = 150;
const NODES_MAX = 3_000;
const KEY_TO_PAINT_MS = 50;
const STEADY_MS = 450;
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };
const place = workplace();
let server, browser, origin, storageState;

const opened = (options = {}) => openPage(browser, origin, { storageState, ...options });
const stop = (page, key) => page.locator(`[data-stop="${key}"]`);
const focused = (page) => page.evaluate(() => document.activeElement?.closest("[data-stop]")?.dataset.stop ?? "");
const answers = (fake) => fake.sent.filter(({ type }) => type === "commands").flatMap(({ session, commands }) => commands.map((command) => ({ session, ...command })));
const steady = (page) => page.waitForTimeout(STEADY_MS);
const ALL = () => [COMMAND(), OVERWRITE(), QUESTION(), ALIKE(), ...RUNNING(), ...EARLIER()];

/** A conversation that begins over the inbox, so that nothing of another one is shown meanwhile. */
async function started(page, prompt) {
  await page.goto(new URL("/#/", origin).href);
  await page.waitForSelector(".list, .empty, .first");
  await begin(page, { prompt, model: place.paced, folder: place.folder });
}

/** A page with rows of our own. */
async function faked(rows, { hash = "", ...options } = {}) {
  const visitor = await opened(options);
  const fake = await fakeInbox(visitor.page, rows);
  await visitor.page.goto(new URL(`/${hash}`, origin).href);
  await visitor.page.waitForSelector(".list, .sheet .ask, .setting-panel, .empty, .first");
  return { ...visitor, fake };
}

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

test("what agents ask is answered in the inbox with keys alone", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(origin.origin);
  await page.waitForSelector(".first");
  for (const prompt of ["DENY it", "QUESTION", "OVERWRITE"]) await started(page, prompt);
  await page.locator("body").press("Escape");
  await page.locator("body").press("g");
  await page.locator("body").press("i");
  await page.waitForFunction(() => document.querySelectorAll(".needs-you article.ask").length === 3);
  assert.equal(await focused(page), "", "nothing takes the focus by itself");
  assert.match(await page.title(), /^\(3\) Inbox/);
  await shot(page, "inbox-real");
  await page.keyboard.press("j");
  await steady(page);
  await page.keyboard.press("n");
  await page.keyboard.type("far too much");
  await page.keyboard.press("Control+Enter");
  await page.getByText("Denied: rm -rf everything").waitFor();
  await page.keyboard.press("j");
  await steady(page);
  await page.keyboard.press("2");
  await page.getByText("Answered: Five").waitFor();
  await page.keyboard.press("j");
  await steady(page);
  await page.waitForSelector(".needs-you .patch tr.removed");
  assert.match(await page.locator(".ask.at").innerText(), /Asks to overwrite notes\.txt/);
  await steady(page);
  await page.keyboard.press("y");
  await page.getByText("Allowed once: notes.txt").waitFor();
  await page.locator(".item", { hasText: "OVERWRITE" }).getByLabel(/Idle|Done/).waitFor();
  assert.equal(readFileSync(`${place.folder}/notes.txt`, "utf8"), "line 1\nanother\n");
  await page.locator(".item", { hasText: "DENY" }).click();
  await page.getByText("denied: far too much").first().waitFor();
  assert.deepEqual(troubles, []);
  await context.close();
});

test("the keys below the list are those of the question at the cursor", async () => {
  const { page, context } = await faked([COMMAND(), QUESTION(), PLAN(), ...RUNNING()]);
  const hints = page.locator(".keys-line");
  await stop(page, "s-command r-command").focus();
  await hints.getByText("allow once").waitFor();
  await stop(page, "s-question r-question").focus();
  await hints.getByText("choose").waitFor();
  await shot(page, "inbox-keys");
  assert.doesNotMatch(await hints.innerText(), /allow|deny|always/);
  await stop(page, "s-plan r-plan").focus();
  await hints.getByText("another plan…").waitFor();
  await context.close();
});

test("two that are alike are answered at once, after the list was shown, and only those that are ticked", async () => {
  const { page, context } = await opened();
  await page.goto(origin.origin);
  for (const prompt of ["ALWAYS first", "ALWAYS second", "ALWAYS third"]) await started(page, prompt);
  await page.goto(new URL("/#/", origin).href);
  await page.getByText(/3 ask the same/).waitFor();
  await page.keyboard.press("Shift+Y");
  await page.getByRole("heading", { name: "Answer 3 similar questions?" }).waitFor();
  await page.getByRole("checkbox", { name: /ALWAYS second/ }).uncheck();
  await steady(page);
  await shot(page, "inbox-alike");
  await page.keyboard.press("y");
  await page.waitForFunction(() => document.querySelectorAll(".ask.over").length >= 2);
  await page.locator(".ask:not(.over)", { hasText: "touch two" }).nth(1).waitFor();
  assert.equal(await page.locator(".ask:not(.over)", { hasText: "touch one" }).count(), 1);
  await page.locator(".ask:not(.over)", { hasText: "touch one" }).getByRole("button", { name: /Always allow/ }).first().waitFor();
  await context.close();
});

test("another window sees who answered first", async () => {
  const [one, two] = [await opened(), await opened()];
  for (const { page } of [one, two]) await page.goto(new URL("/#/", origin).href);
  await started(one.page, "DENY again");
  await one.page.goto(new URL("/#/", origin).href);
  for (const { page } of [one, two]) await page.locator(".ask", { hasText: "DENY again" }).waitFor();
  await steady(one.page);
  await one.page.locator(".ask", { hasText: "DENY again" }).getByRole("button", { name: /Allow once/ }).click();
  if (await one.page.locator(".ask", { hasText: "DENY again" }).getByRole("button", { name: "Allow once" }).isVisible()) await one.page.keyboard.press("y");
  await two.page.getByText(/Allowed by Chrome in another window: rm -rf everything/).waitFor();
  await one.context.close();
  await two.context.close();
});

test("contents are searched on the server, and found with the arrows", async () => {
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await page.waitForSelector(".list");
  await page.keyboard.press("/");
  await page.keyboard.type("Then not");
  await page.locator(".found .item").first().waitFor();
  await page.keyboard.press("ArrowDown");
  assert.ok(await focused(page));
  await page.keyboard.press("ArrowUp");
  assert.ok(await page.evaluate(() => document.activeElement.matches("input[type=search]")));
  await page.keyboard.press("Control+A");
  await page.keyboard.type("no such words at all");
  await page.getByText("Nothing found for “no such words at all”").waitFor();
  await page.keyboard.press("Escape");
  await page.waitForSelector(".list .section");
  await context.close();
});

test("a card answers to keys only when it has the focus, has stood still, and the key is not held down", async () => {
  const { page, context, fake } = await faked([COMMAND()]);
  await page.keyboard.press("y");
  await steady(page);
  await page.keyboard.press("y");
  assert.deepEqual(answers(fake), [], "the focus is elsewhere");
  await page.keyboard.press("/");
  await page.keyboard.type("yyy");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  fake.change({ ...COMMAND(), id: "s-first", stateSinceMs: 1, asks: [ask("r-first", { subject: "ls", askedMs: 1 })] });
  await page.waitForFunction(() => document.querySelectorAll("article.ask").length === 2);
  assert.equal(await page.locator("article.ask").first().getAttribute("data-stop"), "s-command r-command", "what is new comes below while the cursor is here");
  await steady(page);
  await page.evaluate(() => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "y", bubbles: true, cancelable: true, repeat: true })));
  assert.deepEqual(answers(fake), [], "a key that is held down");
  await page.keyboard.press("k");
  await page.keyboard.press("y");
  const [answer] = answers(fake);
  assert.deepEqual([answer.session, answer.type, answer.relayId, answer.argumentsHash, answer.optionId], ["s-command", "approve", "r-command", "hash of r-command", "once"]);
  fake.taken("s-command");
  await page.getByText(/^Allowed once: pnpm test/).waitFor();
  await page.waitForFunction(() => document.querySelectorAll("article.ask").length === 1, null, { timeout: 8_000 });
  await context.close();
});

test("a card that has just come, and the click that raises the window, answer nothing", async () => {
  const { page, context, fake } = await faked(RUNNING());
  fake.change(COMMAND());
  const allow = page.getByRole("button", { name: /Allow once/ });
  await allow.waitFor();
  await allow.dispatchEvent("click");
  assert.deepEqual(answers(fake), []);
  await steady(page);
  await page.evaluate(() => window.dispatchEvent(new Event("focus")));
  await allow.click();
  assert.deepEqual(answers(fake), []);
  await steady(page);
  await allow.click();
  assert.equal(answers(fake).length, 1);
  await context.close();
});

test("“always” grants what stands on its button, and its reach can be chosen", async () => {
  const { page, context, fake } = await faked([COMMAND()]);
  await page.keyboard.press("j");
  await steady(page);
  assert.match(await page.locator(".always-first").innerText(), /^Always allow pnpm test \*\* in this conversation/);
  await page.getByRole("button", { name: /how far/ }).click();
  await page.locator(".menu-item", { hasText: "in this project" }).click();
  assert.equal(answers(fake)[0].optionId, "project");
  await context.close();
});

test("a command that hides part of itself is denied first, confirmed twice, and has no key", async () => {
  const { page, context, fake } = await faked([MARKED()]);
  await page.keyboard.press("j");
  await steady(page);
  assert.equal(await page.locator("pre.command").innerText(), "$ echo safe U+202E right-to-left; rm -rf ~ #U+202C ok");
  assert.match(await page.locator(".button.primary", { hasText: "Deny" }).innerText(), /Deny…/);
  assert.equal(await page.locator(".always-first").count(), 0);
  await page.keyboard.press("y");
  await page.keyboard.press("a");
  assert.deepEqual(answers(fake), []);
  await shot(page, "inbox-marked");
  await page.getByRole("button", { name: "Allow once…" }).click();
  assert.deepEqual(answers(fake), []);
  await steady(page);
  await page.getByRole("button", { name: "Allow once, as it is shown" }).click();
  assert.equal(answers(fake).length, 1);
  await context.close();
});

test("a question that changed comes back, and one that is withdrawn says so", async () => {
  const { page, context, fake } = await faked([COMMAND(), QUESTION()]);
  await page.keyboard.press("j");
  await steady(page);
  await page.keyboard.press("y");
  const { id: commandId } = answers(fake)[0];
  fake.say({ type: "error", session: "s-command", message: "It changed, look again", commandId });
  await page.locator(".ask.at [role=alert]", { hasText: "It changed, look again" }).waitFor();
  assert.ok(await page.getByRole("button", { name: /Allow once/ }).first().isEnabled());
  fake.taken("s-question", { state: "interrupted" });
  await page.getByText("No longer asked: the run was stopped").waitFor();
  await page.getByRole("button", { name: "Dismiss" }).click();
  assert.equal(await page.getByText("No longer asked").count(), 0);
  await context.close();
});

test("without a connection nothing can be answered, and nothing is sent later", async () => {
  const { page, context, fake } = await faked(ALL());
  fake.isRefused = true;
  await fake.drop();
  await page.getByText(/Not connected for/).waitFor();
  assert.equal(await page.getByRole("button", { name: /Allow once/ }).first().isEnabled(), false);
  await page.keyboard.press("j");
  await steady(page);
  await page.keyboard.press("y");
  await shot(page, "inbox-offline");
  fake.isRefused = false;
  await page.getByRole("button", { name: "Try now" }).click({ timeout: 2_000 }).catch(() => undefined); // it may be back by itself
  await page.getByText("Connected again").waitFor();
  assert.deepEqual(answers(fake), []);
  assert.equal(await page.getByRole("button", { name: /Allow once/ }).first().isEnabled(), true);
  await context.close();
});

test("forms, plans with notes and tools with secrets", async () => {
  const { page, context, fake } = await faked([FORM(), PLAN(), TOOL()]);
  const form = page.locator(".ask", { hasText: "Two questions" });
  await steady(page);
  assert.equal(await form.getByRole("button", { name: /Send answers/ }).isEnabled(), false);
  await form.getByRole("radio", { name: "npm", exact: true }).check();
  await form.getByRole("checkbox", { name: "Linux" }).check();
  await form.getByRole("checkbox", { name: "macOS" }).check();
  await form.getByRole("button", { name: /Send answers/ }).click();
  assert.deepEqual(answers(fake).at(-1).answer, { manager: "npm", systems: ["Linux", "macOS"] });
  fake.taken("s-form");
  const plan = page.locator(".ask", { hasText: "Integers for money" });
  await plan.getByRole("button", { name: "Note on step 3" }).click();
  await plan.getByRole("textbox", { name: "Note on step 3" }).fill("write the migration, do not run it");
  await steady(page);
  await plan.getByRole("button", { name: /Start, with 1 note/ }).click();
  assert.deepEqual(answers(fake).at(-1).answer, { action: "approved", feedback: "Step 3: write the migration, do not run it" });
  const tool = page.locator(".ask", { hasText: "write_secret" });
  assert.ok(!(await tool.innerText()).includes("xxxx"));
  assert.match(await tool.innerText(), /1,704 characters/);
  await context.close();
});

test("what runs is steered and stopped from its row, what is unseen is bold, filters and groups hold", async () => {
  const { page, context, fake } = await faked(ALL());
  await stop(page, "s-links").focus();
  await page.keyboard.press("s");
  await page.keyboard.type("skip the archive");
  await page.keyboard.press("Enter");
  assert.deepEqual(answers(fake).at(-1), { session: "s-links", type: "steer", message: "skip the archive" });
  await stop(page, "s-links").focus();
  await page.keyboard.press("x");
  await page.getByText("2 queued messages wait behind it").waitFor();
  await page.getByRole("button", { name: "Stop and clear" }).click();
  assert.deepEqual(answers(fake).at(-1), { session: "s-links", type: "cancel", queue: "clear" });
  assert.equal(await page.locator(".item.new").count(), 3);
  assert.equal(await page.locator(".group").count(), 2);
  await page.getByRole("button", { name: "By day" }).click();
  assert.equal(await page.locator(".group").count(), 1);
  await page.getByRole("button", { name: "By project" }).click();
  await page.getByRole("button", { name: /^Failed/ }).click();
  await page.waitForFunction(() => document.querySelectorAll("[data-stop]").length === 2);
  await page.locator(".pick a", { hasText: "infra" }).click();
  await page.waitForFunction(() => document.querySelectorAll("[data-stop]").length === 1);
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll("[data-stop]").length === 2);
  await stop(page, "s-flaky").focus();
  await page.keyboard.press("d");
  await page.waitForFunction(() => location.hash === "#/c/s-flaky?changes");
  await context.close();
});

test("more than four have a line each, and the one at the cursor a card", async () => {
  const { page, context, fake } = await faked([...ALL(), MARKED(), PLAN(), TOOL()]);
  assert.equal(await page.locator("article.ask.thin").count(), 6);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.equal(await focused(page), "s-overwrite r-overwrite");
  assert.equal(await page.locator("article.ask.at").getAttribute("data-stop"), "s-overwrite r-overwrite");
  await steady(page);
  await stop(page, "s-alike r-alike").getByRole("button", { name: "Allow once" }).click();
  assert.deepEqual(answers(fake).map(({ session, type }) => [session, type]), [["s-alike", "approve"]]);
  await shot(page, "inbox-busy");
  await context.close();
});

test("on a phone one question after the other fills the screen, its answers at the thumb", async () => {
  const { page, context, fake, troubles } = await faked(ALL(), { ...PHONE, colorScheme: "dark" });
  assert.equal(await page.locator(".side").isVisible(), false);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing sticks out");
  await page.getByRole("button", { name: "1 more needs you" }).tap();
  await shot(page, "inbox-narrow");
  await page.locator(".ask", { hasText: "Move invoices" }).getByRole("button", { name: "Review and answer" }).tap();
  await page.getByText("2 of 4").waitFor();
  const allow = page.getByRole("button", { name: /Allow once/ });
  assert.ok((await allow.boundingBox()).y > 600, "at the thumb");
  assert.ok((await allow.boundingBox()).height >= 44);
  await shot(page, "inbox-answer-narrow");
  await steady(page);
  await allow.tap();
  assert.equal(answers(fake).at(-1).session, "s-overwrite");
  fake.taken("s-overwrite");
  await page.getByText("Allowed once: app/tax/rates.py").waitFor();
  await page.getByText("1 of 3").waitFor();
  await page.getByRole("button", { name: "Back to the inbox" }).tap();
  await page.waitForSelector(".tabs");
  assert.deepEqual(troubles, []);
  await context.close();
});

test("a person is called when the page is not in front, once, and by its title", async () => {
  const { page, context } = await opened({ permissions: ["notifications"] });
  await page.addInitScript(() => {
    window.notes = [];
    window.Notification = class {
      static permission = "granted";
      static requestPermission = async () => "granted";
      constructor(title, { body, tag }) {
        window.notes.push({ title, body, tag });
      }
      close() {}
    };
    window.isInFront = true;
    document.hasFocus = () => window.isInFront;
  });
  const fake = await fakeInbox(page, RUNNING());
  await page.goto(origin.origin);
  await page.waitForSelector(".list");
  const icon = () => page.evaluate(() => document.querySelector("link[rel=icon]").href);
  assert.equal(await page.title(), "Inbox – Harness");
  assert.match(await icon(), /favicon\.svg$/);
  fake.change(QUESTION());
  await page.waitForFunction(() => document.title === "(1) Inbox – Harness");
  assert.match(await icon(), /^data:image\/png/);
  assert.equal(await page.locator("[data-announced]").innerText(), "Gemini in docs-site asks a question");
  assert.deepEqual(await page.evaluate(() => window.notes), [], "the page is in front");
  await page.evaluate(() => (window.isInFront = false));
  fake.change(COMMAND());
  await page.waitForFunction(() => window.notes.length === 1);
  assert.deepEqual(await page.evaluate(() => window.notes), [{ title: "Claude Code in shop asks to run a command", body: "Fix the failing checkout test", tag: "s-command r-command" }]);
  fake.taken("s-command", { state: "succeeded" });
  await page.waitForFunction(() => document.title === "(1) Inbox – Harness");
  await page.goto(new URL("/#/settings", origin).href);
  await page.getByLabel("Count in the title and on the icon").uncheck();
  await page.waitForFunction(() => document.title === "Settings – Harness");
  await context.close();
});

test("every page and state passes axe, light and dark, wide and narrow", async () => {
  const busy = () => [...ALL(), MARKED(), PLAN(), FORM(), TOOL()];
  const cases = [
    ["inbox-wide-light", ALL(), {}],
    ["inbox-wide-dark", ALL(), { colorScheme: "dark" }],
    ["inbox-lines", busy(), {}],
    ["inbox-forms", [MARKED(), PLAN(), FORM(), TOOL()], { colorScheme: "dark" }],
    ["inbox-phone-light", ALL(), PHONE],
    ["inbox-phone-dark", ALL(), { ...PHONE, colorScheme: "dark" }],
    ["inbox-phone-answer", ALL(), { ...PHONE, hash: "#/?answer=s-overwrite" }],
    ["inbox-phone-question", ALL(), { ...PHONE, colorScheme: "dark", hash: "#/?answer=s-question" }],
    ["inbox-empty", [], {}],
    ["settings-light", ALL(), { hash: "#/settings" }],
    ["settings-dark", ALL(), { hash: "#/settings", colorScheme: "dark" }],
    ["inbox-zoomed", ALL(), { viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 }],
  ];
  for (const [name, rows, options] of cases) {
    const { page, context } = await faked(rows, { reducedMotion: "reduce", ...options });
    await shot(page, name);
    assert.deepEqual(await violations(page), [], name);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${name}: nothing sticks out`);
    await context.close();
  }
});

test("200 live rows: few nodes, keys are answered at once, and four changes a second each are drawn", async (t) => {
  const many = Array.from({ length: 200 }, (_, index) => ({ ...RUNNING()[index % 4], id: `s-${index}`, title: `Run ${index}`, startedMs: Date.now() - index }));
  const { page, context, fake } = await faked([...many, ...EARLIER()]);
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  t.diagnostic(`${nodes} nodes`);
  assert.ok(nodes <= NODES_MAX, `${nodes} nodes`);
  await page.keyboard.press("j");
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const cpu_ms = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1_000;
  const busyBefore_ms = await cpu_ms();
  let round = 0;
  const timer = setInterval(() => (round++, fake.change(...many.map((one) => ({ ...one, lastOperation: { kind: "command", text: `Run step ${round}` } })))), 250);
  const took = await page.evaluate(async () => {
    const took = [];
    for (let index = 0; index < 40; index++) {
      const start = performance.now();
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true, cancelable: true }));
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      took.push(performance.now() - start);
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    return took.sort((left, right) => left - right);
  });
  clearInterval(timer);
  // Processor time, with that of the changes: the clock also counts what other programs do meanwhile.
  const perKey_ms = ((await cpu_ms()) - busyBefore_ms) / took.length;
  t.diagnostic(`key to paint while all change: ${perKey_ms.toFixed(1)} ms of the page's processor time; by the clock p50 ${took[20].toFixed(1)} ms, p95 ${took[38].toFixed(1)} ms`);
  assert.ok(perKey_ms <= KEY_TO_PAINT_MS, `${perKey_ms} ms`);
  assert.equal(await focused(page), "s-159", "the cursor went through all of them");
  assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) <= NODES_MAX);
  await context.close();
});

test(`the first screen takes at most ${FIRST_SCREEN_KB} KB of the network, answers and headers included`, async (t) => {
  const { page, context } = await opened();
  await fakeInbox(page, ALL());
  const network = await context.newCDPSession(page);
  await network.send("Network.enable");
  const sizes = [];
  network.on("Network.loadingFinished", ({ encodedDataLength }) => sizes.push(encodedDataLength));
  await page.goto(origin.origin);
  await page.waitForSelector(".needs-you");
  await page.waitForTimeout(500);
  const total = sizes.reduce((sum, size) => sum + size, 0) / 1024;
  t.diagnostic(`${total.toFixed(0)} KB in ${sizes.length} answers`);
  assert.ok(sizes.length > 5, "they were counted");
  assert.ok(total <= FIRST_SCREEN_KB, `${total} KB`);
  await context.close();
});

test("nothing is allowed before all of it was on the screen, however long it is", async () => {
  const whole = `touch x # ${"harmless words ".repeat(3_000)}\necho HIDDEN-PART`;
  const long = row("long", { state: "needs-approval", asks: [ask("long", { subject: `${whole.slice(0, 2_000)}… (43,000 more characters)`, isCut: true, reason: "it runs a program" })] });
  const { page, context, troubles, fake } = await faked([long]);
  await page.route(/asks\/long$/, (route) => route.fulfill({ json: ask("long", { subject: whole, reason: "it runs a program" }) }));
  await page.reload();
  const card = stop(page, "long long");
  const allow = card.getByRole("button", { name: /^Allow once/ });
  await card.getByText("HIDDEN-PART").waitFor({ state: "attached" });
  await steady(page);
  assert.equal(await allow.isDisabled(), true);
  await card.getByText("Asked because: it runs a program").waitFor();
  await shot(page, "ask-long");
  await card.focus();
  await page.keyboard.press("y");
  assert.deepEqual(answers(fake), []);
  await card.locator(".tall-box").evaluate((box) => box.scrollTo(0, box.scrollHeight));
  await page.waitForFunction(() => !document.querySelector("article.ask .button.primary").disabled);
  await allow.click();
  assert.deepEqual(answers(fake).map(({ type }) => type), ["approve"]);
  assert.deepEqual(troubles, []);
  await context.close();
});

test("a question that stands for several calls shows them all, and every line of a change", async () => {
  const call = (subject, over = {}) => ({ ...ask("x", { subject }), ...over });
  const diff = ["@@ -1,1 +1,900 @@", ...Array.from({ length: 900 }, (_, index) => `+line ${index}`)].join("\n");
  const preview = [{ path: "/work/shop/a.py", change: "update", added: 900, removed: 0, diff, hiddenLines: 0 }];
  const several = row("several", {
    state: "needs-approval",
    cwd: "/work/shop",
    asks: [ask("several", { subject: "make a", further: [call("make b"), call("a.py", { title: "edit a.py", operations: [{ kind: "write", path: "a.py" }], preview })] })],
  });
  const { page, context, troubles } = await faked([several]);
  const card = stop(page, "several several");
  await card.getByText("make b").waitFor();
  await shot(page, "ask-several");
  const allow = card.getByRole("button", { name: /^Allow once/ });
  assert.equal(await allow.isDisabled(), true);
  const box = card.locator(".tall-box.diff-scroll");
  for (let round = 0; round < 5 && (await allow.isDisabled()); round++) {
    await box.evaluate((place) => place.scrollTo(0, place.scrollHeight));
    await page.waitForTimeout(60);
  }
  await card.getByText("line 899").waitFor();
  assert.equal(await allow.isDisabled(), false);
  assert.deepEqual(troubles, []);
  await context.close();
});
