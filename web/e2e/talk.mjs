// The conversation, the start dialog, the first-time page and the usage page in a real Chromium.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { LONG_ID, writeLongLog } from "./long_log.mjs";
import { begin, launchBrowser, openPage, shot, untilMark, violations } from "./page.mjs";
import { workplace } from "./scripts.mjs";
import { startServer } from "./server.mjs";

const TURNS = 2_500;
const NODES_MAX = 3_000;
const FRAME_MS = 1000 / 60;
const place = workplace();
let server, browser, origin, storageState;

const opened = (options = {}) => openPage(browser, origin, { storageState, ...options });
const paced = (prompt) => ({ prompt, model: place.paced, folder: place.folder });
const address = (id) => new URL(`/#/c/${id}`, origin).href;

before(async () => {
  server = await startServer({ folder: place.folder, model: place.paced, prepare: (home) => writeLongLog(home, TURNS) });
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

test(`${TURNS * 2} messages: few nodes, short frames, and the reader's place stays`, async (t) => {
  const { page, context, troubles } = await opened();
  const started = performance.now();
  await page.goto(address(LONG_ID));
  await page.waitForFunction((last) => document.querySelector(".column")?.innerText.includes(`Answer ${last}`), TURNS - 1);
  t.diagnostic(`the end is shown after ${(performance.now() - started).toFixed(0)} ms`);
  const nodes = () => page.evaluate(() => document.querySelectorAll("*").length);
  const counts = [await nodes()];
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" }); // others may use the processor as well
  const busy_s = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const before_s = await busy_s();
  const scrolled = await page.evaluate(scrollThrough);
  const frame_ms = (1000 * ((await busy_s()) - before_s)) / scrolled.frames.length;
  counts.push(await nodes());
  const sorted = scrolled.frames.toSorted((left, right) => left - right);
  const at = (share) => sorted[Math.floor((sorted.length - 1) * share)].toFixed(1);
  t.diagnostic(`${Math.max(...counts, scrolled.nodes)} nodes at most; ${sorted.length} frames while scrolling: p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, longest ${at(1)} ms; ${frame_ms.toFixed(1)} ms of the page's processor time each`);
  assert.ok(Math.max(...counts, scrolled.nodes) <= NODES_MAX, `${counts} ${scrolled.nodes}`);
  assert.ok(frame_ms <= FRAME_MS, `a frame took ${frame_ms} ms`);
  const jumps = await page.evaluate(scrollUpAndWatch);
  assert.ok(jumps < 2, `what is read moved by ${jumps} px`);
  await shot(page, "long-conversation");
  assert.deepEqual(troubles, []);
  await context.close();
});

/** Scrolls through some hundred screens, as a wheel does. Runs in the page. */
async function scrollThrough() {
  const viewport = document.querySelector(".viewport");
  const frames = [];
  let nodes = 0;
  viewport.scrollTop = viewport.scrollHeight / 2;
  await new Promise((resolve) => setTimeout(resolve, 300));
  let last = performance.now();
  for (let step = 0; step < 240; step++) {
    viewport.scrollTop -= 90;
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const now = performance.now();
    frames.push(now - last);
    last = now;
    if (step % 20 === 0) nodes = Math.max(nodes, document.querySelectorAll("*").length);
  }
  return { frames, nodes };
}

/** How far what is read jumps when what is above it gets its real size. Runs in the page. */
async function scrollUpAndWatch() {
  const viewport = document.querySelector(".viewport");
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  viewport.scrollTop = viewport.scrollHeight / 3;
  for (let count = 0; count < 30; count++) await frame();
  let worst = 0;
  for (let step = 0; step < 40; step++) {
    const middle = viewport.getBoundingClientRect().top + viewport.clientHeight / 2;
    const entry = [...document.querySelectorAll(".entry")].find((one) => one.getBoundingClientRect().bottom > middle);
    const key = entry.dataset.key;
    const before = entry.getBoundingClientRect().top;
    viewport.scrollTop -= 60;
    await frame();
    await frame();
    await frame();
    const same = [...document.querySelectorAll(".entry")].find((one) => one.dataset.key === key);
    worst = Math.max(worst, Math.abs(same.getBoundingClientRect().top - before - 60));
  }
  return worst;
}

test("find looks through what is not drawn, and shows it", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(address(LONG_ID));
  await page.waitForSelector(".entry");
  await page.keyboard.press("Control+f");
  await page.keyboard.type("needle is here");
  await page.getByText("1 of 1", { exact: true }).waitFor();
  await page.waitForFunction(() => document.querySelector(".column").innerText.includes("The needle is here."));
  await page.waitForFunction(() => [...CSS.highlights.get("found-now")].length === 1);
  await shot(page, "find");
  await page.locator(".find input").press("Control+a");
  await page.keyboard.type("the far match");
  await page.getByText("1 of 1", { exact: true }).waitFor();
  const isInSight = () => {
    const [range] = CSS.highlights.get("found-now") ?? [];
    const { top, bottom } = range?.getBoundingClientRect() ?? { top: -1, bottom: -1 };
    return range && top > 0 && bottom < innerHeight;
  };
  await page.waitForFunction(isInSight, null, { timeout: 5_000 });
  await page.waitForTimeout(300);
  assert.equal(await page.evaluate(isInSight), true, "the match is on the screen, not only the beginning of its message");
  await page.locator(".find input").press("Control+a");
  await page.keyboard.type("second 2");
  await page.getByText(/^\d+ of 611$/).waitFor();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".find").count(), 0);
  assert.deepEqual(troubles, []);
  await context.close();
});

const AGENT = { version: "1.2.3", installed: true, usable: true, builtIn: false, install: "", models: true, capabilities: { resume: true, read_only: true }, twoWay: ["approve", "ask", "steer"], keys: [] };
const AGENTS = [
  { ...AGENT, name: "claude", title: "Claude Code" },
  { ...AGENT, name: "opencode", title: "OpenCode", twoWay: ["approve"] },
  { ...AGENT, name: "native", title: "Harness agent", builtIn: true },
  { ...AGENT, name: "mini-swe", title: "mini-SWE-agent", twoWay: [], capabilities: {} },
  { ...AGENT, name: "codex", title: "Codex", usable: false, installed: false, install: "npm i -g @openai/codex" },
];
const MODELS = [
  { id: "opus", name: "Opus", description: "", provider: "anthropic", usable: true, priceIn: 5, priceOut: 25 },
  { id: "sonnet", name: "Sonnet", description: "", provider: "anthropic", usable: true, priceIn: 3, priceOut: 15 },
  { id: "odd", name: "odd", description: "", provider: "", usable: true, priceIn: null, priceOut: null },
];

async function withAgents(page, runners = []) {
  await page.route("**/api/agents", (route) => route.fulfill({ json: { agents: [...AGENTS, { ...AGENT, name: "remote", title: "Remote", builtIn: true }], runners } }));
  await page.route("**/api/models*", (route) => route.fulfill({ json: { models: MODELS, defaultModel: "opus" } }));
}

test("the start dialog says what agents can do, disables what they cannot, and proposes a worktree", async () => {
  for (const [name, options] of Object.entries({ "": {}, "-dark": { colorScheme: "dark" }, "-390": { viewport: { width: 390, height: 844 } } })) {
    const { page, context, troubles } = await opened(options);
    await withAgents(page);
    const project = { folder: place.folder, name: "shop", branch: "main", isRepository: true, usedMs: 1, liveAgents: ["Codex", "Gemini"], changed: 2 };
    await page.route("**/api/projects", (route) => route.fulfill({ json: { projects: [project, { ...project, folder: "/tmp/billing", name: "billing-api" }] } }));
    await page.route("**/api/projects/one*", (route) => route.fulfill({ json: project }));
    await page.goto(new URL("/#/", origin).href);
    await page.waitForSelector(".frame");
    await page.keyboard.press("c");
    await page.waitForSelector(".start[open]");
    await page.getByRole("radio", { name: /Claude Code/ }).check({ force: true });
    await page.locator(".start-prompt").fill("Let customers pay with several gift cards");
    await page.getByRole("button", { name: "A new worktree", pressed: true }).waitFor();
    assert.equal(await page.getByLabel("Branch").inputValue(), "customers-pay-several-gift");
    await page.getByText("2 other agents work in this folder, so a worktree is proposed.").waitFor();
    assert.match(await page.locator(".start-models").innerText(), /Opus\s+default\s+\$5 in · \$25 out/);
    await shot(page, `start${name}`);
    assert.deepEqual(await violations(page), [], `start${name}`);
    await page.getByRole("radio", { name: /mini-SWE/ }).check({ force: true });
    for (const mode of ["Before changes", "Before commands", "Read only"]) assert.ok(await page.getByRole("button", { name: mode }).isDisabled());
    assert.ok(await page.getByRole("button", { name: "Never", pressed: true }).count());
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector(".start"));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing sticks out");
    assert.deepEqual(troubles, []);
    await context.close();
  }
});

test("the agents of runners are offered by name, and asked for under it", async () => {
  const { page, context } = await opened();
  await withAgents(page, [{ name: "box", agent: "claude", url: "", cwd: "" }]);
  await page.goto(new URL("/#/new", origin).href);
  await page.locator(".start-agent").first().waitFor();
  const names = await page.locator(".start-agents .start-agent-name").allInnerTexts();
  assert.deepEqual(names, ["Claude Code", "OpenCode", "Harness agent", "mini-SWE-agent", "box: Claude Code"]);
  await page.getByRole("radio", { name: "box: Claude Code sandbox runner" }).check({ force: true });
  await page.locator(".start-prompt").fill("Say hello");
  const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/api/sessions"));
  await page.route("**/api/sessions", (route) => route.abort());
  await page.locator(".start-prompt").press("Control+Enter");
  const { agent, runner } = (await sent).postDataJSON();
  assert.deepEqual([agent, runner], ["remote", "box"]);
  await context.close();
});

test("files and templates complete a prompt, a draft stays, and a run starts in a worktree of its own", async () => {
  execFileSync("git", ["init", "-q", "-b", "main"], { cwd: place.folder });
  execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"], { cwd: place.folder });
  const { page, context, troubles } = await opened();
  await page.goto(new URL("/#/new", origin).href);
  const prompt = page.locator(".start-prompt");
  await prompt.pressSequentially("WORDS about @http_c");
  await page.getByRole("option", { name: "http_client.py" }).waitFor();
  await shot(page, "start-files");
  await prompt.press("Enter");
  assert.equal(await prompt.inputValue(), "WORDS about @http_client.py ");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector(".start"));
  await page.keyboard.press("c");
  assert.equal(await prompt.inputValue(), "WORDS about @http_client.py ");
  await page.getByRole("button", { name: "A new worktree" }).click();
  await page.getByLabel("Branch").fill("try-words");
  await page.getByRole("button", { name: /^Start Ctrl/ }).click();
  await page.waitForSelector(".run-facts");
  assert.match(await page.locator(".header").innerText(), /try-words/);
  await page.getByRole("button", { name: "Remove worktree" }).click();
  await page.getByText("stays; its worktree is removed.").waitFor();
  await page.goto(new URL("/#/new", origin).href);
  await prompt.fill("");
  await prompt.pressSequentially("/expl");
  await page.getByRole("option", { name: /explain/ }).click();
  assert.match(await prompt.inputValue(), /^Explain what this project does/);
  assert.deepEqual(troubles, []);
  await context.close();
});

/** Fourteen days of five agents in three projects, as the server would say it. */
function usageOf(url) {
  const { searchParams } = new URL(url);
  const [by, split] = [searchParams.get("by"), searchParams.get("split")];
  const values = { agent: ["claude", "codex", "gemini", "native", "opencode"], project: ["/code/shop", "/code/billing-api", "/code/infra"], model: ["opus-5", "gpt-5.6-sol", "gemini-3.1-pro", "kimi-k3", "local/qwen"] };
  const amounts = (cost, index) => ({ sessions: 3, input: 1_900_000 / (index + 1), cache_read: 8_200_000 / (index + 1), cache_write: index % 2 ? null : 220_000, output: 61_000, reasoning: null, cost_usd: index === 4 && by === "model" ? null : cost, cost_source: index % 2 ? "computed" : "stated", is_cost_complete: index !== 4 });
  const days = Array.from({ length: 28 }, (_, index) => new Date(Date.now() - (27 - index) * 86_400_000).toLocaleDateString("en-CA"));
  const inner = values[split] ?? [];
  const rows =
    by === "day"
      ? days.flatMap((day, at) => (inner.length ? inner : [""]).map((key, index) => ({ day, ...(split && { [split]: key }), ...amounts((2 + ((at * 7) % 11)) / (index + 1), index) })))
      : (values[by] ?? [LONG_ID]).map((key, index) => ({ [by]: key, ...(split && { [split]: inner[index % inner.length] }), ...amounts(79.68 / (index + 1), index) }));
  const outcomes = [{ agent: "claude", runs: 9, outcomes: { completed: 7, failed: 1, timed_out: 1 } }, { agent: "codex", runs: 2, outcomes: { unfinished: 2 } }];
  return { by, rows, total: amounts(159.37, 0), prices_date: "2026-09-12", outcomes };
}

test("usage is shown by day, project, agent and model, as plots and as tables", async () => {
  for (const [name, options] of Object.entries({ "": { viewport: { width: 1440, height: 1010 } }, "-dark": { viewport: { width: 1440, height: 1010 }, colorScheme: "dark" }, "-390": { viewport: { width: 390, height: 844 } } })) {
    const { page, context, troubles } = await opened(options);
    await page.route("**/api/usage*", (route) => route.fulfill({ json: usageOf(route.request().url()) }));
    await page.goto(new URL("/#/usage", origin).href);
    await page.waitForSelector(".usage .plot rect");
    await shot(page, `usage${name}`);
    assert.deepEqual(await violations(page), [], `usage${name}`);
    assert.match(await page.locator(".usage-models").innerText(), /no price/);
    await page.getByRole("button", { name: "As a table" }).click();
    assert.equal(await page.locator(".usage-days tbody tr").count(), 14);
    await page.getByRole("group", { name: "Split by" }).getByRole("button", { name: "Project" }).click();
    await page.locator(".usage-days th", { hasText: "billing-api" }).waitFor();
    assert.deepEqual(await violations(page), [], `usage${name}, as a table`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing sticks out");
    assert.deepEqual(troubles, []);
    await context.close();
  }
});

test("usage of the server itself is shown, with nothing used as well", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(new URL("/#/usage", origin).href);
  await page.waitForSelector(".usage .plot");
  await page.getByRole("button", { name: "Today" }).click();
  await page.waitForSelector(".usage .plot");
  assert.deepEqual(troubles, []);
  await context.close();
});

test("formulas and diagrams are drawn, tables keep their sides, and nothing in them runs or loads", async () => {
  const { page, context, troubles } = await opened();
  await page.goto(new URL("/#/", origin).href);
  await begin(page, paced("MATHS"));
  await untilMark(page, "idle");
  await page.waitForSelector(".formula math mfrac");
  await page.waitForSelector(".diagram img");
  await page.waitForTimeout(1_500);
  await shot(page, "maths");
  const found = await page.evaluate(() => ({
    ran: window.__ran,
    inline: document.querySelectorAll(".formula:not(.display) math").length > 0,
    money: document.querySelector(".column").innerText.includes("$5 or $10"),
    right: getComputedStyle(document.querySelector(".markdown td:nth-child(2)")).textAlign,
    scripts: document.querySelectorAll("#page script, #page iframe, #page object").length,
    links: [...document.querySelectorAll("#page .column a")].map((one) => one.getAttribute("href")).filter((href) => !/^(?:https?:|mailto:|#\/)/i.test(href ?? "")),
    size: document.querySelector(".diagram img").naturalWidth > 100,
  }));
  assert.deepEqual(found, { ran: undefined, inline: true, money: true, right: "right", scripts: 0, links: [], size: true });
  // The policy of the page forbids inline styles, which Mermaid tries to add while it measures.
  assert.deepEqual(troubles.filter((trouble) => !/inline style|Content Security Policy/.test(trouble)), []);
  await context.close();
});

test("the first time, it says what is missing and how to get it, and a demonstration needs no key", async () => {
  const other = await startServer({ folder: place.folder, model: place.paced });
  const there = new URL(other.link);
  const visitor = await openPage(browser, there);
  await visitor.page.goto(other.link);
  await visitor.page.waitForSelector(".first-panel");
  const state = await visitor.context.storageState();
  await visitor.context.close();
  for (const [name, options] of Object.entries({ "": {}, "-dark": { colorScheme: "dark" }, "-390": { viewport: { width: 390, height: 844 } } })) {
    const { page, context, troubles } = await openPage(browser, there, { storageState: state, ...options });
    await page.route("**/api/agents", (route) => route.fulfill({ json: { agents: AGENTS.map((one) => ({ ...one, usable: one.builtIn, install: one.builtIn ? "" : `npm i -g ${one.name}` })), runners: [] } }));
    await page.route("**/api/histories", (route) => route.fulfill({ json: { histories: [{ agent: "claude", title: "Claude Code", sessions: 200 }, { agent: "codex", title: "Codex", sessions: 12 }] } }));
    await page.goto(there.origin);
    await page.getByText("No agent is installed here yet").waitFor();
    await page.getByText(/212 conversations of Claude Code and Codex/).waitFor();
    await shot(page, `first${name}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing sticks out");
    assert.deepEqual(troubles, []);
    if (name === "-390") {
      await page.getByRole("button", { name: "Start the demonstration" }).click();
      await page.waitForSelector(".dock .ask");
    }
    await context.close();
  }
  await other.stop();
});

test("a new conversation is typed at once, begins with what was chosen last, and several agents can be started", async () => {
  const { page, context, troubles } = await openPage(browser, origin, { storageState });
  await page.goto(new URL("/#/", origin).href);
  await page.waitForSelector(".home");
  await page.locator("body").press("c");
  await page.waitForSelector("dialog.start[open]");
  await page.keyboard.type("typed at once");
  assert.equal(await page.locator(".start-prompt").inputValue(), "typed at once");
  await page.locator(".start-model", { hasText: place.paced }).waitFor();
  const edges = await page.locator(".start, .start-models, .start-folder, .start-price").evaluateAll((all) => all.map((one) => one.getBoundingClientRect().right));
  assert.ok(edges.every((right) => right <= edges[0]), `a long name of a model moves nothing out of sight: ${edges}`);
  await page.getByRole("button", { name: "Never" }).click();
  await page.locator("#start-folder").fill(place.folder);
  await page.getByRole("button", { name: "Another model…" }).click();
  await page.getByRole("textbox", { name: "Model", exact: true }).fill(place.paced);
  await page.getByRole("button", { name: "Start several…" }).click();
  await page.getByText("Tick the agents that shall do the same").waitFor();
  await shot(page, "start-several");
  await page.getByRole("button", { name: "Start one" }).click();
  await page.getByRole("button", { name: /^Start Ctrl/ }).click();
  await page.waitForURL(/#\/c\//);
  await page.locator("body").press("Escape");
  await page.goto(new URL("/#/", origin).href);
  await page.locator("body").press("c");
  await page.waitForSelector("dialog.start[open]");
  assert.equal(await page.locator("#start-folder").inputValue(), place.folder);
  assert.equal(await page.getByRole("button", { name: "Never" }).getAttribute("aria-pressed"), "true");
  assert.deepEqual(troubles, []);
  await context.close();
});
