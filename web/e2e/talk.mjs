// The conversation, the start dialog, the first-time page and the usage page in a real Chromium.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LONG_ID, writeLongLog } from "./long_log.mjs";
import { begin, launchBrowser, openPage, shot, untilMark } from "./page.mjs";
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
  await visitor.page.waitForSelector("textarea");
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
  const scrolled = await page.evaluate(scrollThrough);
  counts.push(await nodes());
  const sorted = scrolled.frames.toSorted((left, right) => left - right);
  const at = (share) => sorted[Math.floor((sorted.length - 1) * share)].toFixed(1);
  t.diagnostic(`${Math.max(...counts, scrolled.nodes)} nodes at most; ${sorted.length} frames while scrolling: p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, longest ${at(1)} ms; own work per frame: p50 ${scrolled.work50.toFixed(1)} ms, p95 ${scrolled.work95.toFixed(1)} ms`);
  assert.ok(Math.max(...counts, scrolled.nodes) <= NODES_MAX, `${counts} ${scrolled.nodes}`);
  assert.ok(sorted[sorted.length >> 1] <= FRAME_MS * 1.5, `the median frame took ${at(0.5)} ms`);
  const jumps = await page.evaluate(scrollUpAndWatch);
  assert.ok(jumps < 2, `what is read moved by ${jumps} px`);
  await shot(page, "long-conversation");
  assert.deepEqual(troubles, []);
  await context.close();
});

/** Scrolls through some hundred screens, as a wheel does. Runs in the page. */
async function scrollThrough() {
  const viewport = document.querySelector(".viewport");
  const [frames, work] = [[], []];
  let nodes = 0;
  viewport.scrollTop = viewport.scrollHeight / 2;
  await new Promise((resolve) => setTimeout(resolve, 300));
  let last = performance.now();
  for (let step = 0; step < 240; step++) {
    const begun = performance.now();
    viewport.scrollTop -= 90;
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const now = performance.now();
    frames.push(now - last);
    last = now;
    await new Promise((resolve) => {
      const channel = new MessageChannel();
      channel.port1.onmessage = resolve;
      channel.port2.postMessage(0);
    });
    work.push(performance.now() - now);
    if (step % 20 === 0) nodes = Math.max(nodes, document.querySelectorAll("*").length);
  }
  work.sort((left, right) => left - right);
  return { frames, nodes, work50: work[work.length >> 1], work95: work[Math.floor(work.length * 0.95)] };
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
