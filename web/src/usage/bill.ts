/** Usage as the server sends it, and the data of the plots. Nothing here invents a number: unknown stays unknown. */

/** A row of `GET /api/usage`: what it is grouped by, and amounts; null: unknown. */
export interface UsageRow {
  readonly day?: string | null;
  readonly agent?: string | null;
  readonly model?: string | null;
  readonly project?: string | null;
  readonly session?: string | null;
  readonly sessions: number;
  readonly input: number | null;
  readonly cache_read: number | null;
  readonly cache_write: number | null;
  readonly output: number | null;
  readonly reasoning: number | null;
  readonly cost_usd: number | null;
  readonly cost_source: "stated" | "computed" | "mixed" | null;
  readonly is_cost_complete: boolean;
}

/** How many runs of an agent ended in each way. */
export interface AgentOutcomes {
  readonly agent: string;
  readonly runs: number;
  readonly outcomes: { readonly [outcome: string]: number };
}

export interface Bill {
  readonly rows: readonly UsageRow[];
  readonly total: UsageRow;
  readonly prices_date: string;
  readonly outcomes: readonly AgentOutcomes[];
}

/** The words for outcomes, in the order in which they are shown; the rest have failed. */
const ENDINGS: readonly (readonly [string, readonly string[]])[] = [
  ["done", ["completed"]],
  ["stopped", ["interrupted"]],
  ["at a limit", ["limit_exceeded", "timed_out", "stalled"]],
  ["unfinished", ["unfinished"]],
];
export const ENDING_NAMES = ["done", "failed", ...ENDINGS.slice(1).map(([name]) => name)] as const;

/** Runs by how they ended, in the words of the page. */
export function endingsOf(rows: readonly AgentOutcomes[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { outcomes } of rows)
    for (const [outcome, count] of Object.entries(outcomes)) {
      const name = ENDINGS.find(([, those]) => those.includes(outcome))?.[0] ?? "failed";
      counts.set(name, (counts.get(name) ?? 0) + count);
    }
  return counts;
}

export type Split = "agent" | "project" | "model";
export type Measure = "cost" | "tokens";

export interface UsageFilter {
  readonly agent: string;
  readonly project: string;
}

export function tokensOf(row: UsageRow): number {
  return (row.input ?? 0) + (row.cache_read ?? 0) + (row.cache_write ?? 0) + (row.output ?? 0) + (row.reasoning ?? 0);
}

export function valueOf(row: UsageRow, measure: Measure): number {
  return measure === "cost" ? (row.cost_usd ?? 0) : tokensOf(row);
}

/** A date as the server writes it, in this browser's time. */
export function dayOf(date: Date): string {
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
}

/** The last so many days, the oldest first. */
export function lastDays(count: number, today: Date): readonly string[] {
  return Array.from({ length: count }, (_, index) => dayOf(new Date(today.getFullYear(), today.getMonth(), today.getDate() - (count - 1 - index))));
}

export interface Sum {
  readonly value: number;
  readonly isComplete: boolean;
}

export function sumOf(rows: readonly UsageRow[], measure: Measure): Sum {
  return { value: rows.reduce((sum, row) => sum + valueOf(row, measure), 0), isComplete: rows.every((row) => measure === "tokens" || row.is_cost_complete) };
}

export interface Series {
  readonly key: string;
  readonly isOthers: boolean;
  /** One per day. */
  readonly values: readonly number[];
  readonly total: number;
}

const SERIES_MAX = 5;

/** The largest few over the days, and all others in one. */
export function seriesOf(rows: readonly UsageRow[], days: readonly string[], split: Split, measure: Measure): readonly Series[] {
  const places = new Map(days.map((day, index) => [day, index]));
  const groups = new Map<string, number[]>();
  for (const row of rows) {
    const place = places.get(row.day ?? "");
    if (place === undefined) continue;
    const key = row[split] ?? "";
    const values = groups.get(key) ?? new Array<number>(days.length).fill(0);
    values[place]! += valueOf(row, measure);
    groups.set(key, values);
  }
  const series = [...groups].map(([key, values]) => ({ key, isOthers: false, values, total: values.reduce((sum, value) => sum + value, 0) })).filter(({ total }) => total > 0);
  series.sort((left, right) => right.total - left.total || left.key.localeCompare(right.key));
  if (series.length <= SERIES_MAX) return series;
  const rest = series.slice(SERIES_MAX);
  const values = days.map((_, index) => rest.reduce((sum, one) => sum + one.values[index]!, 0));
  return [...series.slice(0, SERIES_MAX), { key: "others", isOthers: true, values, total: values.reduce((sum, value) => sum + value, 0) }];
}

const TINTS = 5;

/** A colour for each series, from 1; 0 for all others. No two are the same: the wanted one goes to the larger series. */
export function tintsOf(series: readonly Series[], wanted: (key: string) => number): readonly number[] {
  const chosen = series.slice(0, TINTS).map(({ key, isOthers }) => (isOthers ? 0 : wanted(key)));
  const tints = chosen.map((tint, index) => (chosen.indexOf(tint) === index ? tint : 0));
  const free = Array.from({ length: TINTS }, (_, index) => index + 1).filter((tint) => !tints.includes(tint));
  return series.map(({ isOthers }, index) => (isOthers ? 0 : tints[index] || (free.shift() ?? 0)));
}

/** What was used without any price: it has no place in a plot of costs, and is named beside it. */
export function unpricedIn(rows: readonly UsageRow[], days: readonly string[], split: Split): readonly string[] {
  const ofDays = rows.filter((row) => days.includes(row.day ?? "") && row[split]);
  const priced = new Set(ofDays.filter((row) => row.cost_usd !== null).map((row) => row[split]));
  return [...new Set(ofDays.filter((row) => tokensOf(row) > 0).map((row) => row[split]!))].filter((key) => !priced.has(key)).sort();
}

/** A round number at or above the highest, in quarters that are round as well. */
export function ceilingOf(highest: number): number {
  if (highest <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(highest));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= highest)!;
}

/** How the cost of a row is known. */
export function sourceOf(row: UsageRow): string {
  if (row.cost_usd === null) return "no price";
  const known = row.cost_source === "stated" ? "stated" : row.cost_source === "computed" ? "priced" : "stated and priced";
  return row.is_cost_complete ? known : `${known}, part has no price`;
}

/** What a spreadsheet reads; a text that it would take for a formula stays a text. */
export function csvOf(rows: readonly UsageRow[]): string {
  const names = ["day", "agent", "project", "model", "sessions", "input", "cache_read", "cache_write", "output", "reasoning", "cost_usd", "cost_source", "is_cost_complete"] as const;
  const used = names.filter((name) => rows.some((row) => row[name] !== undefined));
  const cell = (value: unknown) => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [used.join(","), ...rows.map((row) => used.map((name) => cell(row[name])).join(","))].join("\r\n");
}

export function lastFolder(path: string): string {
  return path.split("/").filter(Boolean).at(-1) ?? path;
}

/** Dollars of a text; null: none. Not a number: wrong. */
export function dollarsOf(text: string): number | null {
  const written = text.replace(/[$\s]/g, "").replace(",", ".");
  if (!written) return null;
  const amount = Number(written);
  return amount > 0 && Number.isFinite(amount) ? amount : Number.NaN;
}
