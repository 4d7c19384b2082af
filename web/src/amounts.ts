/** Numbers as people read them. */

import type { HarnessUsage } from "../client/src/index.js";

/** On an axis or in a bar, where there is little room. Everywhere else: `cost`. */
export function roundMoney(usd: number): string {
  if (usd === 0) return "$0";
  if (usd < 0.01) return "<$0.01";
  return `$${usd.toFixed(usd < 10 ? 2 : usd < 100 ? 1 : 0)}`;
}

/** “41 %”, as every other interface rounds it. */
export function share(used: number, limit: number): number {
  return Math.min(100, Math.floor((100 * used) / limit + 0.5));
}

export function count(amount: number): string {
  if (amount < 1_000) return String(amount);
  if (amount < 999_500) return `${(amount / 1_000).toFixed(amount < 9_950 ? 1 : 0)}k`;
  return `${(amount / 1_000_000).toFixed(1)}M`;
}

export function duration(elapsed_ms: number): string {
  if (elapsed_ms < 1_000) return `${Math.round(elapsed_ms)} ms`;
  const seconds = elapsed_ms / 1_000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function clockTime(time_ms: number): string {
  return new Date(time_ms).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** Hours and minutes; the day before them when it is not today. */
export function shortTime(time_ms: number, now_ms = Date.now()): string {
  const date = new Date(time_ms);
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === new Date(now_ms).toDateString()) return time;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

const DAY_MS = 86_400_000;

/** “48 s”, “6 min”, “3 h”, “2 d”: how long something waits or runs. */
export function roughly(elapsed_ms: number): string {
  const seconds = Math.max(0, Math.floor(elapsed_ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3_600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

/** “13:40” of a moment today, else its day. */
export function moment(time_ms: number, now_ms = Date.now()): string {
  const date = new Date(time_ms);
  if (date.toDateString() === new Date(now_ms).toDateString()) return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

/** “$0.31”; “≥ $0.31” when some of it is unknown; “–” when all of it is. */
export function cost(usd: number | null, isComplete = true): string {
  if (usd === null) return "–";
  if (isComplete && usd > 0 && usd < 0.001) return "<$0.001";
  return `${isComplete ? "" : "≥ "}$${usd.toFixed(usd > 0 && usd < 0.01 ? 3 : 2)}`;
}

/** “now”, “5 min”, “3 h”, then the day. */
export function ago(time_ms: number, now_ms = Date.now()): string {
  const elapsed = now_ms - time_ms;
  if (elapsed < 60_000) return "now";
  if (elapsed < 3_600_000) return `${Math.floor(elapsed / 60_000)} min`;
  if (elapsed < DAY_MS) return `${Math.floor(elapsed / 3_600_000)} h`;
  const date = new Date(time_ms);
  const sameYear = date.getFullYear() === new Date(now_ms).getFullYear();
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(!sameYear && { year: "numeric" }) });
}

/** “12k in · 1.2k out”, with the cache and the reasoning where the agent reports them. */
export function tokens(usage: HarnessUsage): string {
  const amounts: readonly (readonly [number | null, string])[] = [
    [usage.input, "in"],
    [usage.cacheRead, "cached"],
    [usage.output, "out"],
    [usage.reasoning, "reasoning"],
  ];
  return amounts.flatMap(([amount, name]) => (amount ? [`${count(amount)} ${name}`] : [])).join(" · ");
}
