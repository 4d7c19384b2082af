// A real Chromium, and the few things that these tests do on the page again and again.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const SHOTS = process.env.HARNESS_SHOTS ?? join(dirname(fileURLToPath(import.meta.url)), "..", "shots");
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

export async function launchBrowser() {
  mkdirSync(SHOTS, { recursive: true });
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
}

/** A page that is let in; `troubles` has what it complained of and every request that left the server's origin. */
export async function openPage(browser, origin, { storageState, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options, ...(storageState && { storageState }) });
  const page = await context.newPage();
  const troubles = [];
  page.on("pageerror", (error) => troubles.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && !isExpected(message.text()) && troubles.push(`console: ${message.text()}`));
  page.on("request", (request) => /^https?:|^wss?:/.test(request.url()) && new URL(request.url()).host !== origin.host && troubles.push(`left: ${request.url()}`));
  page.on("dialog", (dialog) => (troubles.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  return { context, page, troubles };
}

/** The browser's own words when a server is gone, and about the icon of the login page. */
function isExpected(text) {
  return /ERR_CONNECTION|WebSocket connection|net::|favicon|Failed to load resource/.test(text);
}

export async function begin(page, { prompt, model, folder }) {
  await page.goto(new URL("/#/new", page.url()).href);
  await page.fill(".start-prompt", prompt);
  await page.getByRole("button", { name: "Another model…" }).click();
  await page.getByRole("textbox", { name: "Model", exact: true }).fill(model);
  await page.getByLabel("Folder", { exact: true }).fill(folder);
  await page.getByRole("button", { name: "The folder itself" }).click();
  await page.locator(".start-prompt").press("Control+Enter");
  await page.waitForSelector(".entry");
}

/** Presses a button of what waits for an answer, once it has been where it is for a moment. */
export async function answer(page, name) {
  const button = page.locator(".dock .ask:not(.over)").getByRole("button", { name });
  await button.waitFor();
  await page.waitForTimeout(500);
  await button.click();
}

export const mark = (page) => page.locator(".header .mark").getAttribute("data-mark");

export async function untilMark(page, wanted, timeout = 60_000) {
  await page.waitForFunction((name) => document.querySelector(".header .mark")?.dataset.mark === name, wanted, { timeout, polling: 50 });
}

/** All that a conversation shows, from its beginning: only what is in sight is drawn, so it is scrolled through. */
export function wordsOf(page) {
  return page.evaluate(async () => {
    const viewport = document.querySelector(".viewport");
    const settled = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const said = new Map();
    const look = () => document.querySelectorAll(".entry").forEach((one) => one.isConnected && said.set(one.dataset.key, one.innerText));
    viewport.scrollTop = 0;
    await settled();
    look();
    while (viewport.scrollTop + viewport.clientHeight < viewport.scrollHeight - 1) {
      viewport.scrollTop += viewport.clientHeight / 2;
      await settled();
      look();
    }
    return [...said.values()].join("\n");
  });
}

/** What axe finds wrong on the page as it is now: the rule, and where. */
export async function violations(page) {
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate((rules) => globalThis.axe.run(document, { runOnly: rules }), RULES);
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(" ")).join(", ")}`);
}

export async function shot(page, name) {
  await page.waitForTimeout(350); // transitions
  await page.screenshot({ path: join(SHOTS, `${name}.png`) });
}
