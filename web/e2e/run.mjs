// The page in a real Chromium against the real server. Run by `npm run e2e`; HARNESS_URL names a server that runs.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { HOSTILE_TEXTS } from "./hostile_texts.mjs";
import { answer, begin, launchBrowser, mark, openPage, shot, untilMark, violations, wordsOf } from "./page.mjs";
import { DOT, FLOOD_DELTAS, workplace } from "./scripts.mjs";
import { startServer } from "./server.mjs";

const USABLE_MS = 2_000;
const place = workplace();
let server, browser, origin, storageState, first;

const opened = (options = {}) => openPage(browser, origin, { storageState, ...options });
const paced = (prompt) => ({ prompt, model: place.paced, folder: place.folder });
const words = wordsOf;

/** A browser with a link of its own. */
async function letIn() {
  const visitor = await openPage(browser, origin);
  await visitor.page.goto(await server.command("--link"));
  await visitor.page.waitForSelector(".home");
  return { ...visitor, storageState: await visitor.context.storageState() };
}

before(async () => {
  server = await startServer({ folder: place.folder, model: place.paced });
  origin = new URL(server.link);
  browser = await launchBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("the link lets in, once, and leads to a page that is usable within two seconds", async (t) => {
  const visitor = await openPage(browser, origin);
  await visitor.page.goto(server.link);
  await visitor.page.waitForSelector(".home");
  storageState = await visitor.context.storageState();
  const again = await opened();
  const started = performance.now();
  await again.page.goto(origin.origin);
  await again.page.waitForSelector(".list, .empty, .first");
  const usable_ms = performance.now() - started;
  t.diagnostic(`usable after ${usable_ms.toFixed(0)} ms`);
  assert.ok(usable_ms < USABLE_MS, `usable after ${usable_ms} ms`);
  await shot(again.page, "empty");
  assert.deepEqual(again.troubles, []);
  await again.context.close();
  await visitor.context.close();
});

test("a newcomer runs an agent, allows a change and a command, and reads what came of it", async () => {
  first = await opened();
  const { page } = first;
  await page.goto(origin.origin);
  await begin(page, paced("RETRIES: make the HTTP client back off between retries"));
  first.address = page.url();
  await page.waitForSelector(".dock .patch");
  await shot(page, "approval-of-a-change");
  await page.locator(".composer-input").press("Escape");
  await page.waitForTimeout(500);
  await page.keyboard.press("y");
  await page.waitForSelector(".dock .command");
  assert.ok(await page.evaluate(() => document.activeElement !== document.body), "the focus is lost");
  assert.equal(await mark(page), "waiting");
  await shot(page, "approval");
  await answer(page, /Allow once/);
  await page.waitForSelector(".run-facts");
  const column = await words(page);
  for (const expected of ["I'll look at how", "Edit", "exit 1", "FAILED test_gives_up", "Done: the client now waits 0.25 s", "4.2k in"])
    assert.ok(column.includes(expected), `${expected} is not in\n${column}`);
  assert.equal(await page.locator(".markdown strong", { hasText: "0.25 s" }).count(), 1);
  assert.equal(await page.locator(".code-keyword", { hasText: "def" }).count() > 0, true);
  assert.deepEqual(await page.locator(".tasks li").evaluateAll((tasks) => tasks.map((one) => one.dataset.status)), ["completed", "completed", "in_progress"]);
  await shot(page, "conversation-light");
  assert.deepEqual(await violations(page), []);
  await page.locator(".tool[data-kind=write] > .tool-head").click();
  assert.equal(await page.locator(".diff-added").count(), 2);
  await shot(page, "change");
  await page.locator(".tool[data-kind=write] > .tool-head").click();
});

test("reloading, and another browser, show the same", async () => {
  const { page } = first;
  const said = await words(page);
  await page.reload();
  await page.waitForSelector(".run-facts");
  assert.equal(await words(page), said);
  const other = await opened({ colorScheme: "dark" });
  await other.page.goto(page.url());
  await other.page.waitForSelector(".run-facts");
  assert.equal(await words(other.page), said);
  await shot(other.page, "conversation-dark");
  assert.deepEqual(await violations(other.page), []);
  await other.context.close();
});

test("two browsers see one run go on, and either may stop it", async () => {
  const [one, two] = [await opened(), await opened()];
  await one.page.goto(origin.origin);
  await begin(one.page, paced("LONG story"));
  await two.page.goto(one.page.url());
  await two.page.waitForFunction(() => document.querySelector(".column")?.innerText.includes("word20 "));
  await two.page.getByRole("button", { name: "Stop" }).click();
  await Promise.all([untilMark(one.page, "idle"), untilMark(two.page, "idle")]);
  assert.equal(await words(one.page), await words(two.page));
  assert.ok(!(await words(one.page)).includes("word599"));
  await one.page.reload();
  await one.page.waitForSelector(".message.assistant");
  assert.equal(await words(one.page), await words(two.page));
  assert.deepEqual([...one.troubles, ...two.troubles], []);
  await one.context.close();
  await two.context.close();
});

test("all tabs of a browser share one connection, and one that is closed takes nothing from the others", async () => {
  const { page, context, troubles } = await opened();
  const others = [await context.newPage(), await context.newPage()];
  const sockets = [];
  for (const tab of [page, ...others]) {
    tab.on("websocket", (socket) => sockets.push(socket.url()));
    await tab.goto(origin.origin);
    await tab.getByText(/Connected · \d+ live/).waitFor();
  }
  assert.deepEqual(sockets, [], "a tab has a connection of its own");
  await begin(page, paced("LONG tale"));
  await others[0].goto(page.url());
  await others[0].waitForFunction(() => document.querySelector(".column")?.innerText.includes("word20 "));
  await page.close();
  const before = (await words(others[0])).length;
  await others[0].waitForFunction((length) => document.querySelector(".column").innerText.length > length || document.querySelector(".header .mark").dataset.mark === "idle", before);
  await others[1].goto(others[0].url());
  await others[1].waitForFunction(() => document.querySelector(".column")?.innerText.includes("word1 "));
  assert.deepEqual(troubles, []);
  await context.close();
});

test("a question is answered with a button, and survives a reload", async () => {
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced("QUESTION"));
  await page.waitForSelector(".choice");
  assert.equal(await mark(page), "waiting");
  await shot(page, "question");
  assert.deepEqual(await violations(page), []);
  await page.reload();
  await answer(page, /Five/);
  await page.locator(".tool[data-status=complete] > .tool-head").click();
  assert.ok((await words(page)).includes("User answered: Five"));
  await page.getByRole("button", { name: "Stop" }).click();
  await untilMark(page, "idle");
  await context.close();
});

test("a plan is read and approved", async () => {
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced("PLAN"));
  await page.waitForSelector(".plan-text");
  await shot(page, "plan");
  assert.deepEqual(await violations(page), []);
  await answer(page, /^Start/);
  await page.waitForSelector(".tool[data-status=complete]");
  await page.getByRole("button", { name: "Stop" }).click({ timeout: 1_000 }).catch(() => undefined);
  await untilMark(page, "idle");
  await context.close();
});

test("what harness run recorded is listed, and shows its sub-agent and its whole output", async (t) => {
  if (!server.record) return t.skip("the server's home is not ours");
  await server.record("RECORD: who counts attempts?");
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await page.locator(".item", { hasText: "RECORD" }).click();
  await page.waitForSelector(".read-only");
  await page.locator(".tool[data-kind=spawn] > .tool-head").click();
  assert.ok((await page.locator(".tool[data-kind=spawn] .tool-body").innerText()).includes("Only test_gives_up does."));
  await shot(page, "sub-agent");
  await page.getByRole("link", { name: "Open as conversation" }).click();
  await page.getByText("The sub-agent explorer has ended.").waitFor();
  const said = await words(page);
  for (const expected of ["EXPLORE: find the tests", "I look.", "Only test_gives_up does."]) assert.ok(said.includes(expected), said);
  await shot(page, "sub-agent-conversation");
  await page.getByRole("link", { name: "Back to the conversation" }).click();
  await page.locator(".tool[data-kind=command] > .tool-head").click();
  await page.getByRole("button", { name: /Show all/ }).click();
  await page.waitForFunction(() => document.querySelector(".tool[data-kind=command] pre[aria-label=Output]").textContent.includes("\n20000\n"));
  await context.close();
});

test("what is denied does not happen, and the reason is shown", async () => {
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced("DENY it"));
  await answer(page, /Deny…/);
  await page.getByLabel("Reason").fill("far too much");
  await answer(page, /^Deny Ctrl/);
  await untilMark(page, "idle");
  assert.ok((await words(page)).includes("denied: far too much"));
  assert.ok((await words(page)).includes("Then not."));
  await context.close();
});

test("a call that has not started says what it would do, and that it waits", async () => {
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced("TWICE"));
  await page.waitForSelector(".dock .patch");
  await page.waitForFunction(() => document.querySelectorAll(".tool").length === 2);
  const heads = await page.locator(".tool-head").allInnerTexts();
  assert.match(heads[0].replace(/\s+/g, " "), /^Write big\.py .*needs you$/);
  assert.match(heads[1].replace(/\s+/g, " "), /^Run touch two (will run|needs you)$/);
  assert.equal(await page.locator(".tool .spinner").count(), 0);
  await shot(page, "two-at-once");
  await page.getByRole("button", { name: "Stop" }).click();
  await untilMark(page, "idle");
  for (const head of await page.locator(".tool-head").allInnerTexts()) assert.match(head, /not run/);
  await context.close();
});

test("footnotes, links by name and pictures are there, boxes have names, and a finished answer is announced", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced("WORDS"));
  await untilMark(page, "idle");
  await page.waitForSelector(".markdown canvas.picture");
  await page.waitForSelector(".tool canvas.picture");
  const said = await page.locator(".message.assistant").last().innerText();
  for (const expected of ["The footnote text matters.", "[INFO]: kept", "word<U+202E>turned", "far (picture at example.com, not loaded)"])
    assert.ok(said.includes(expected), `${expected} is not in\n${said}`);
  assert.equal(await page.locator(".markdown a", { hasText: "link" }).getAttribute("href"), "https://example.com/there");
  assert.equal(await page.getByRole("checkbox", { name: "looked" }).count(), 1);
  assert.match(await page.locator("[data-finished]").innerText(), /^The agent answered: A term/);
  await shot(page, "words");
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(troubles, []);
  await context.close();
});

test("a follow-up waits in the queue, can be removed, stays when the run is stopped, and is sent with one button", async () => {
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced("LONG first"));
  const composer = page.locator(".composer-input");
  await composer.fill(`take this back ${"and more ".repeat(60)}`);
  await composer.press("Alt+Enter");
  await page.waitForSelector(".follow-ups li");
  assert.ok((await page.locator(".follow-ups li button").boundingBox()).x < (await page.locator(".composer").boundingBox()).width + 320, "the button is out of reach");
  await page.getByLabel(/Remove from queue: take this back/).click();
  await page.waitForFunction(() => !document.querySelector(".follow-ups li"));
  await composer.fill("second prompt");
  await composer.press("Alt+Enter");
  await page.waitForSelector(".follow-ups li");
  await shot(page, "queue");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await shot(page, "stop-with-queue");
  await page.getByRole("button", { name: "Stop, keep queue" }).click();
  await page.getByRole("button", { name: "Continue" }).waitFor();
  await untilMark(page, "idle");
  await shot(page, "queue-stopped");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.waitForFunction(() => [...document.querySelectorAll(".message.user")].some((one) => one.innerText.includes("second prompt")));
  await page.waitForFunction(() => !document.querySelector(".follow-ups li"));
  await untilMark(page, "idle");
  for (const button of ["Stop, clear queue", "Clear"]) {
    await composer.fill("LONG again");
    await composer.press("Enter");
    await untilMark(page, "running");
    await composer.fill("never said");
    await composer.press("Alt+Enter");
    await page.waitForSelector(".follow-ups li");
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    if (button === "Clear") await page.getByRole("button", { name: "Stop, keep queue" }).click();
    await page.getByRole("button", { name: button, exact: true }).click();
    await page.waitForFunction(() => !document.querySelector(".follow-ups li"));
    await untilMark(page, "idle");
  }
  assert.ok(!(await words(page)).includes("never said"));
  await context.close();
});

test("a steering message reaches the current run", async () => {
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced("RETRIES once more"));
  await page.waitForSelector(".dock .button.primary");
  await page.locator(".composer-input").fill("mind the tests");
  await page.locator(".composer-input").press("Enter");
  await page.locator(".message.user[data-status=pending]", { hasText: "sent, not yet taken" }).waitFor();
  await shot(page, "steering");
  assert.equal(await page.locator(".follow-ups li").count(), 0);
  await answer(page, /Allow once/);
  await page.locator(".message.steered[data-status=complete]", { hasText: /mind the tests[^]*taken/ }).waitFor();
  await untilMark(page, "idle");
  await context.close();
});

const PICTURE = { name: "dot.png", mimeType: "image/png", buffer: Buffer.from(DOT, "base64") };
const SOURCE = { name: "main.rs", mimeType: "", buffer: Buffer.from("fn main() {}\n") };

test("files go with a message, are shown with it, and what is no use to a model is refused", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(new URL("/#/new", origin).href);
  await page.setInputFiles(".start input[type=file]", [PICTURE, { name: "program", mimeType: "", buffer: Buffer.from([0, 159, 1]) }]);
  await page.waitForSelector(".chosen .problem");
  assert.deepEqual(await page.locator(".chosen li .clipped").allInnerTexts(), ["dot.png"]);
  await page.locator(".chosen").scrollIntoViewIfNeeded();
  await page.fill(".start-prompt", "what is it?");
  await page.locator(".start-prompt").press("Control+Enter");
  await page.waitForSelector(".bubble canvas.picture[width='1']");
  await untilMark(page, "idle");
  await page.setInputFiles(".composer input[type=file]", [SOURCE, PICTURE]);
  await page.getByLabel("Remove dot.png").click();
  await page.locator(".composer-input").fill("and this?");
  await page.locator(".composer-input").press("Enter");
  await page.locator(".bubble .file", { hasText: "main.rs" }).waitFor();
  assert.equal(await page.locator(".chosen").count(), 0);
  await untilMark(page, "idle");
  assert.deepEqual(troubles, []);
  await context.close();
});

test("a message is rephrased in a conversation of its own", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced("first thing"));
  await untilMark(page, "idle");
  await page.locator(".composer-input").fill("second thing");
  await page.locator(".composer-input").press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".run-facts").length === 2);
  await page.locator(".message.user").nth(1).hover();
  await page.getByLabel("Rephrase").nth(1).click();
  await page.waitForFunction(() => document.querySelector(".start-prompt")?.value === "second thing");
  await shot(page, "rephrase");
  await page.fill(".start-prompt", "another thing");
  await page.locator(".start-prompt").press("Control+Enter");
  await page.locator(".bubble", { hasText: "another thing" }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".run-facts").length === 2);
  assert.deepEqual(await page.locator(".bubble").allInnerTexts(), ["first thing", "another thing"]);
  assert.deepEqual(troubles, []);
  await context.close();
});

test("the record of a run is continued in a conversation", async (t) => {
  if (!server.record) return t.skip("the server's home is not ours");
  await server.record("ended long ago");
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await page.locator(".item", { hasText: "ended long ago" }).click();
  await page.getByRole("link", { name: "Continue in a new conversation" }).click();
  await page.getByLabel("Prompt").fill("go on");
  await page.getByLabel("Prompt").press("Control+Enter");
  await page.waitForFunction(() => document.querySelectorAll(".run-facts").length === 2);
  assert.deepEqual(await page.locator(".bubble").allInnerTexts(), ["ended long ago", "go on"]);
  await context.close();
});

test("what may be done without asking is changed for the runs that come", async () => {
  const { page, context } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced("hello"));
  await untilMark(page, "idle");
  await page.getByRole("combobox", { name: "Permissions" }).selectOption("fullAuto");
  await page.locator(".composer-input").fill("RETRIES now");
  await page.locator(".composer-input").press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".run-facts").length === 2);
  await page.reload();
  await page.waitForFunction(() => document.querySelector(".settings [aria-label=Permissions]")?.value === "fullAuto");
  await context.close();
});

test("the past can be replayed with a slider", async () => {
  const { page } = first;
  await page.getByRole("button", { name: "Replay" }).click();
  const slider = page.getByLabel("Moment");
  await page.waitForSelector(".replay input:not([disabled])");
  const last = Number(await slider.getAttribute("max"));
  assert.ok(last > 10);
  await slider.fill("0");
  await page.waitForFunction(() => !document.querySelector(".message.assistant"));
  await slider.fill(String(Math.floor(last * 0.45)));
  await page.waitForFunction(() => document.querySelector(".message.assistant"));
  const then = await words(page);
  assert.ok(then.includes("I'll look at how") && !then.includes("Done: the client"));
  await shot(page, "replay");
  await slider.fill(String(last));
  await page.waitForFunction(() => document.querySelector(".column").innerText.includes("Done: the client"));
  await page.getByRole("button", { name: "Back to now" }).click();
  await page.waitForSelector(".composer-input");
});

test("search, keys and the theme work without a mouse", async () => {
  const { page } = first;
  await page.locator(".brand").focus();
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement.matches("input[type=search]"));
  await page.keyboard.type("between retries");
  await page.waitForFunction(() => document.querySelectorAll(".found .item").length === 1);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".run-facts");
  await page.waitForFunction(() => document.querySelector("a[data-session][aria-current=page]"));
  await page.locator(".brand").focus();
  await page.keyboard.press("Escape");
  await page.waitForSelector(".list");
  await page.keyboard.press("j");
  assert.ok(await page.evaluate(() => document.activeElement.matches("[data-stop]")));
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  await shot(page, "keys");
  await page.keyboard.press("Escape");
  const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await colour();
  await page.getByRole("button", { name: /theme/ }).click();
  const chosen = await colour();
  assert.notEqual(chosen, before);
  await page.reload();
  assert.equal(await colour(), chosen);
  await page.getByRole("button", { name: /theme/ }).click();
});

test("on a narrow screen the list is a drawer", async () => {
  const { page, context } = await opened({ viewport: { width: 390, height: 800 }, deviceScaleFactor: 2 });
  await page.goto(origin.origin);
  await page.locator(".item", { hasText: "make the HTTP" }).first().click();
  await page.waitForSelector(".run-facts");
  assert.equal(await page.locator(".side").isVisible(), false);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing sticks out");
  await shot(page, "narrow");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("button", { name: "Show conversations" }).click();
  await page.locator("a[data-session]").first().waitFor();
  await shot(page, "narrow-drawer");
  await context.close();
});

test(`none of ${HOSTILE_TEXTS.length} hostile texts runs, loads or leads anywhere`, async () => {
  const { page, context, troubles } = await opened();
  await page.goto(origin.origin);
  await begin(page, paced(`HOSTILE ${HOSTILE_TEXTS.join(" ")}`));
  const allow = page.getByRole("button", { name: "Allow once" });
  for (let waits = 0; waits < 200 && (await mark(page)) !== "idle" && (await mark(page)) !== "error"; waits++) {
    if (await allow.isEnabled({ timeout: 50 }).catch(() => false)) await allow.click({ timeout: 1_000 }).catch(() => undefined);
    await page.waitForTimeout(100);
  }
  for (const hostile of HOSTILE_TEXTS.slice(0, 20)) {
    await page.locator("h1 button").click();
    await page.getByRole("textbox", { name: "Title", exact: true }).fill(hostile);
    await page.getByRole("textbox", { name: "Title", exact: true }).press("Enter");
  }
  for (const head of await page.locator("[aria-expanded=false]").all()) await head.click({ timeout: 1_000 }).catch(() => undefined);
  await page.waitForTimeout(500);
  const found = await page.evaluate(() => ({
    ran: window.__ran,
    scripts: document.querySelectorAll("#page script, #page iframe, #page object, #page embed, #page img, #page style, #page link, #page base, #page meta").length,
    handlers: [...document.querySelectorAll("#page *")].filter((one) => [...one.attributes].some(({ name }) => /^on/i.test(name))).length,
    links: [...document.querySelectorAll("#page a")].map((one) => one.getAttribute("href")).filter((href) => !/^(?:https?:|mailto:|#\/)/i.test(href ?? "")),
  }));
  await shot(page, "hostile");
  for (const link of await page.locator(".column a:not([href^=\"#/\"])").all()) assert.match(await link.getAttribute("rel"), /noopener/);
  assert.deepEqual(found, { ran: undefined, scripts: 0, handlers: 0, links: [] });
  assert.deepEqual(troubles, []);
  await context.close();
});

test(`${FLOOD_DELTAS.toLocaleString("en")} deltas are drawn in frames`, async (t) => {
  const { page, context, troubles } = await opened();
  await page.goto(origin.origin);
  await page.evaluate(() => {
    window.frames_ms = [];
    let last = performance.now();
    const count = (now) => {
      window.frames_ms.push(now - last);
      last = now;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  });
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const cpu = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  await begin(page, { prompt: "flood", model: place.flood, folder: place.folder });
  const [busyBefore, started] = [await cpu(), performance.now()];
  await page.evaluate(() => (window.frames_ms.length = 0));
  await untilMark(page, "idle", 180_000); // the model pauses a millisecond after each
  const took_ms = performance.now() - started;
  const busy_s = (await cpu()) - busyBefore;
  const frames = (await page.evaluate(() => window.frames_ms)).sort((left, right) => left - right);
  t.diagnostic(`${took_ms.toFixed(0)} ms, ${frames.length} frames, p50 ${frames[frames.length >> 1]?.toFixed(0)} ms, p95 ${frames[Math.floor(frames.length * 0.95)]?.toFixed(0)} ms, longest ${frames.at(-1)?.toFixed(0)} ms, ${busy_s.toFixed(2)} s of the page's processor time`);
  const said = await page.locator(".message.assistant .markdown").last().textContent();
  assert.equal(said.split("another").length - 1, FLOOD_DELTAS / 8);
  assert.deepEqual(troubles, []);
  await context.close();
});

test("another server on this machine gets nothing from the same browser that opens ours", async (t) => {
  if (!server.command) return t.skip("the server is not ours");
  const { page, context } = await openPage(browser, origin);
  await page.goto(await server.command("--link"));
  await page.waitForSelector(".home");
  const received = [];
  const foreign = createServer((request, response) => {
    received.push(`${request.method} ${request.url}\n${JSON.stringify(request.rawHeaders)}`);
    response.setHeader("Content-Type", "text/html");
    response.end("<script>document.title = JSON.stringify([document.cookie, {...localStorage}])</script>");
  });
  await new Promise((resolve) => foreign.listen(0, "127.0.0.1", resolve));
  const other = await context.newPage();
  await other.goto(`http://127.0.0.1:${foreign.address().port}/`);
  await other.waitForFunction(() => document.title);
  received.push(await other.title());
  assert.deepEqual(await context.cookies(), []);
  const credential = await page.evaluate(() => localStorage.getItem("harness.credential"));
  assert.ok(credential.length > 30);
  assert.ok(!received.join("\n").includes(credential), received.join("\n"));
  assert.ok(!received.join("\n").toLowerCase().includes("harness"), received.join("\n"));
  for (const text of received.join(" ").match(/[\w-]{20,}/g) ?? [])
    assert.equal((await fetch(new URL("/api/server", origin), { headers: { Authorization: `Bearer ${text}`, Cookie: text } })).status, 401);
  foreign.close();
  await context.close();
});

test("a browser that is logged out sees nothing more, and continues when it is logged in again", async (t) => {
  if (!server.command) return t.skip("the server is not ours");
  const { page, context } = await openPage(browser, origin);
  await page.goto(await server.command("--link"));
  await page.waitForSelector(".home");
  await begin(page, paced("DENY it"));
  await page.waitForSelector(".dock .command");
  await server.command("--logout");
  await page.waitForSelector(".logged-out");
  await shot(page, "logged-out");
  const again = await context.newPage();
  await again.goto(await server.command("--link"));
  await again.waitForSelector(".home");
  assert.equal(new URL(again.url()).search, "");
  await page.waitForFunction(() => !document.querySelector(".logged-out") && !document.querySelector(".banner"));
  await page.getByRole("button", { name: "Stop" }).click();
  await untilMark(page, "idle");
  await context.close();
  const used = await openPage(browser, origin);
  await used.page.goto(server.link);
  await used.page.getByText("This link was used already").waitFor();
  await used.context.close();
  ({ storageState } = await letIn());
});

test("a tab whose old key is refused late keeps what another tab was given meanwhile", async (t) => {
  if (!server.command) return t.skip("the server is not ours");
  const { page, context } = await openPage(browser, origin);
  await page.goto(await server.command("--link"));
  await page.waitForSelector(".home");
  let ask, release;
  const asked = new Promise((resolve) => (ask = resolve));
  const released = new Promise((resolve) => (release = resolve));
  await page.route("**/api/login", async (route) => {
    const response = await route.fetch();
    if (route.request().method() === "POST") {
      ask();
      await released;
    }
    await route.fulfill({ response });
  });
  const refused = page.waitForResponse((response) => response.url().endsWith("/api/login") && response.status() === 401);
  await server.command("--logout");
  await asked;
  const again = await context.newPage();
  await again.goto(await server.command("--link"));
  await again.waitForSelector(".home");
  const given = await again.evaluate(() => localStorage.getItem("harness.credential"));
  release();
  await (await refused).finished();
  await page.evaluate(() => fetch("api/server").then(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))));
  assert.equal(await page.locator(".logged-out").count(), 0);
  assert.equal(await page.evaluate(() => localStorage.getItem("harness.credential")), given);
  await context.close();
  ({ storageState } = await letIn());
});

test("when the server is gone the page says so, and is whole again when it is back", async (t) => {
  if (!server.restart) return t.skip("the server is not ours to restart");
  const { page } = await letIn();
  await page.goto(first.address);
  await page.waitForSelector(".run-facts");
  const said = await words(page);
  await server.restart(async () => {
    await page.waitForSelector(".banner");
    assert.equal(await words(page), said);
    await shot(page, "offline");
  });
  await page.waitForFunction(() => !document.querySelector(".banner"), null, { timeout: 30_000 });
  assert.equal(await words(page), said);
  await page.locator(".composer-input").fill("Anything else?");
  await page.locator(".composer-input").press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".message.user").length === 2);
});
