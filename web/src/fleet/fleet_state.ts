/** A fleet as the server sends it (“Fleets” in `docs/protocol.md`), what changes of it, and how it is put in words. */

import { cost, roughly } from "../amounts.js";

export type FleetState = "planned" | "running" | "stopping" | "completed" | "budget" | "stopped" | "interrupted" | "broken";
export type CaseState = "passed" | "failed" | "done" | "error" | "running" | "waiting";

export interface FleetSummary {
  readonly name: string;
  readonly state: FleetState;
  readonly problem: string;
  readonly cases: number;
  readonly passed: number;
  readonly failed: number;
  readonly done: number;
  readonly errors: number;
  readonly running: number;
  readonly waiting: number;
  readonly costUsd: number;
  readonly isCostComplete: boolean;
  readonly budgetUsd: number | null;
  readonly startedMs: number | null;
  readonly updatedMs: number | null;
  readonly leftS: number | null;
  readonly isAttended: boolean;
}

export interface FleetCase {
  readonly id: string;
  readonly task: string;
  readonly variant: string;
  readonly repeat: number;
  readonly state: CaseState;
  readonly attempts: number;
  readonly session: string;
  /** null: not known. */
  readonly costUsd: number | null;
  readonly outcome: string;
  readonly runS: number | null;
  readonly fault: string;
  readonly detail: string;
  readonly startedMs: number | null;
  readonly activity: string;
}

/** One row of `harness fleet report --json`; null: there is nothing to compute it from. */
export interface VariantReport {
  readonly variant: string;
  readonly runs: number;
  readonly passed: number;
  readonly failed: number;
  readonly errors: number;
  readonly left: number;
  readonly tasks: number;
  readonly solved: number;
  readonly pass_rate: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly pass_at: Readonly<Record<string, number>>;
  readonly pass_all: Readonly<Record<string, number>>;
  readonly cost_usd: number;
  readonly cost_per_solved_usd: number | null;
  readonly unpriced: number;
  readonly median_s: number | null;
  readonly usage: Readonly<Partial<Record<"input" | "output" | "cache_read" | "cache_write" | "reasoning", number>>>;
  readonly faults: Readonly<Record<string, number>>;
}

export interface FleetView {
  readonly summary: FleetSummary;
  readonly tasks: readonly string[];
  readonly variants: readonly { readonly name: string; readonly agent: string; readonly model: string }[];
  readonly repeats: number;
  readonly cases: readonly FleetCase[];
  readonly report: readonly VariantReport[];
}

/** Of B with A: a difference above 0 means that B is better. An end of the interval is null where it is not known. */
export interface Comparison {
  readonly a: string;
  readonly b: string;
  readonly tasks: number;
  readonly left_out: number;
  readonly rate_a: number;
  readonly rate_b: number;
  readonly difference: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly better: number;
  readonly worse: number;
  readonly p_value: number;
  readonly is_clear: boolean;
  readonly tasks_needed: number | null;
  readonly cost_ratio: number | null;
  readonly time_ratio: number | null;
  readonly changed: readonly { readonly task: string; readonly a: number; readonly b: number }[];
}

export type FleetFrame =
  | { readonly type: "fleets"; readonly fleets: readonly FleetSummary[] }
  | { readonly type: "fleet"; readonly fleet: string; readonly view: FleetView }
  | { readonly type: "fleet"; readonly fleet: string; readonly problem: string }
  | { readonly type: "fleet"; readonly fleet: string; readonly changed: { readonly summary: FleetSummary; readonly cases: readonly FleetCase[]; readonly report?: readonly VariantReport[] } };

export interface KnownFleet {
  readonly view: FleetView | null;
  readonly problem: string;
}

/** Cases that are as they were stay the same objects: nothing is drawn again for them. */
export function applied(known: KnownFleet, frame: FleetFrame): KnownFleet {
  if (frame.type !== "fleet") return known;
  if ("problem" in frame) return { view: known.view, problem: frame.problem };
  if ("view" in frame) return { view: frame.view, problem: "" };
  if (!known.view) return known;
  const { summary, cases, report } = frame.changed;
  const changed = new Map(cases.map((one) => [one.id, one]));
  return {
    view: { ...known.view, summary, report: report ?? known.view.report, cases: cases.length ? known.view.cases.map((one) => changed.get(one.id) ?? one) : known.view.cases },
    problem: "",
  };
}

export const ended = (one: FleetSummary) => one.passed + one.failed + one.done + one.errors;
export const isAlive = (one: FleetSummary) => one.state === "running" || one.state === "stopping";

const STATES: { readonly [State in FleetState]: string } = {
  planned: "Not started",
  running: "Running",
  stopping: "Stopping",
  completed: "Done",
  budget: "Budget reached",
  stopped: "Stopped",
  interrupted: "Interrupted",
  broken: "Cannot be read",
};

export const fleetWords = ({ state }: FleetSummary) => STATES[state] ?? state;

export const MARKS: { readonly [State in CaseState]: readonly [sign: string, word: string] } = {
  passed: ["✓", "passed"],
  failed: ["✗", "did not pass"],
  done: ["•", "ended, no check"],
  error: ["!", "error"],
  running: ["…", "running"],
  waiting: ["·", "waits"],
};

const FAULTS: Readonly<Record<string, string>> = {
  lost: "its worker was killed",
  interrupted: "it was stopped",
  setup_failed: "the setup failed",
  not_started: "the agent could not be started",
  rate_limited: "the provider refused it: too many requests",
  agent_failed: "the agent ended with an error",
  check_failed: "the check could not start",
};

export const faultWords = (fault: string) => FAULTS[fault] ?? fault;

/** “cart · claude · run 2”. */
export const caseTitle = (one: Pick<FleetCase, "task" | "variant" | "repeat">, repeats: number) => `${one.task} · ${one.variant}${repeats > 1 ? ` · run ${one.repeat + 1}` : ""}`;

/** What came of it, what it cost and how long it took: for a hover, and for those who do not see the sign. */
export function caseWords(one: FleetCase): string {
  const [, word] = MARKS[one.state];
  const attempts = one.attempts > 1 ? `${one.attempts} attempts` : "";
  if (one.state === "waiting") return [word, one.fault && `${faultWords(one.fault)}, tried again`].filter(Boolean).join(": ");
  if (one.state === "running") return [`${word}: ${one.activity || "starting"}`, attempts].filter(Boolean).join(", ");
  const why = one.state === "error" ? `: ${faultWords(one.fault)}` : one.outcome && one.outcome !== "completed" ? ` (${one.outcome.replaceAll("_", " ")})` : "";
  return [`${word}${why}`, one.costUsd === null ? "" : cost(one.costUsd), one.runS === null ? "" : seconds(one.runS), attempts].filter(Boolean).join(", ");
}

export const seconds = (amount: number) => (amount < 100 ? `${amount.toFixed(amount < 9.95 ? 1 : 0)} s` : roughly(amount * 1_000));
export const percent = (share: number | null | undefined) => (share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`);

function signed(share: number): string {
  const points = Math.round(share * 100);
  return `${points < 0 ? "−" : points > 0 ? "+" : ""}${Math.abs(points)} %`;
}

export interface Verdict {
  readonly head: string;
  readonly text: string;
}

const plural = (amount: number, one: string, many = `${one}s`) => `${amount} ${amount === 1 ? one : many}`;

/** Plain words: who is better and by how much, or that it is undecided, and what would be enough. */
export function verdictOf(found: Comparison, a: string, b: string): Verdict {
  const range = found.low === null || found.high === null ? "" : `, between ${signed(found.low)} and ${signed(found.high)}`;
  const [winner, other] = found.difference > 0 ? [b, a] : [a, b];
  const size =
    found.difference === 0
      ? `Both pass ${percent(found.rate_a)}`
      : `${winner} passes ${percent(found.difference > 0 ? found.rate_b : found.rate_a)}, ${other} ${percent(found.difference > 0 ? found.rate_a : found.rate_b)}: ${signed(found.difference)} for ${b}${range}`;
  const where = ` on ${plural(found.tasks, "task")}.`;
  if (found.is_clear) return { head: `${winner} is better`, text: `${size}${where}` };
  const enough = found.tasks_needed ? ` About ${plural(found.tasks_needed, "task")} would be enough to make this difference clear.` : "";
  return { head: "No clear winner", text: `${size}${where}${enough}` };
}

/** “half as much”, “1.8 × as much”. */
export function ratioWords(ratio: number | null, what: string): string {
  if (ratio === null) return "";
  return Math.abs(ratio - 1) < 0.05 ? `about the same ${what}` : `${ratio.toFixed(ratio < 10 ? 2 : 0)} × the ${what}`;
}
