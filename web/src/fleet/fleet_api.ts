/** What is asked of the server about fleets; what changes comes over the page's socket by itself. */

import { useEffect, useState } from "react";
import { request, RequestFailed } from "../api.js";
import { objectUrl } from "../login.js";
import { pageSocket } from "../socket/socket.js";
import { applied, type Comparison, type FleetSummary, type KnownFleet } from "./fleet_state.js";

export interface CaseAttempt {
  readonly number: number;
  readonly session: string;
  readonly outcome: string;
  readonly passed: boolean | null;
  readonly fault: string;
  readonly detail: string;
  readonly checkExit: number | null;
  readonly checkOutput: string;
  readonly costUsd: number | null;
  readonly tokens: Readonly<Record<string, number>>;
  readonly runS: number;
  readonly durationS: number;
  readonly startedMs: number;
  readonly host: string;
}

export interface CaseDetails {
  readonly id: string;
  readonly task: string;
  readonly variant: string;
  readonly repeat: number;
  readonly prompt: string;
  readonly check: string;
  readonly attempts: readonly CaseAttempt[];
  readonly patch: string;
  readonly isPatchCut: boolean;
  readonly hasSession: boolean;
}

export interface RunStep {
  readonly text: string;
  readonly success: boolean | null;
}

export interface RunDifference {
  readonly firstDifference: number | null;
  readonly steps: readonly { readonly a: RunStep | null; readonly b: RunStep | null }[];
  readonly leftOut: number;
}

const at = (name: string) => `api/fleets/${encodeURIComponent(name)}`;

export const fleetApi = {
  compare: (name: string, a: string, b: string, signal: AbortSignal) =>
    request<{ comparison: Comparison; verdict: string }>("GET", `${at(name)}/compare?${new URLSearchParams({ a, b })}`, undefined, signal),
  diff: (name: string, a: string, b: string, signal: AbortSignal) => request<RunDifference>("GET", `${at(name)}/diff?${new URLSearchParams({ a, b })}`, undefined, signal),
  case: (name: string, id: string, signal: AbortSignal) => request<CaseDetails>("GET", `${at(name)}/cases/${encodeURIComponent(id)}`, undefined, signal),
  stop: (name: string, now: boolean) => request<FleetSummary>("POST", `${at(name)}/stop`, { now }),
  resume: (name: string, budgetUsd: number | null) => request<FleetSummary>("POST", `${at(name)}/resume`, budgetUsd === null ? {} : { budgetUsd }),
  retry: (name: string) => request<FleetSummary>("POST", `${at(name)}/retry`, {}),
};

/** Saves the report or the table of cases: the browser itself cannot ask for it with its credential. */
export async function saveFile(name: string, file: "report.html" | "cases.csv"): Promise<void> {
  const address = await objectUrl(`${at(name)}/${file}`);
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name}-${file}`;
  link.click();
  URL.revokeObjectURL(address);
}

/** All fleets, always current; null until they are known. */
export function useFleets(): readonly FleetSummary[] | null {
  const [fleets, setFleets] = useState<readonly FleetSummary[] | null>(null);
  useEffect(() => pageSocket().followFleet({ fleet: "", receive: (frame) => frame.type === "fleets" && setFleets(frame.fleets) }), []);
  return fleets;
}

const NOTHING: KnownFleet = { view: null, problem: "" };

/** One fleet, always current. */
export function useFleet(name: string): KnownFleet {
  const [known, setKnown] = useState(NOTHING);
  useEffect(() => {
    setKnown(NOTHING);
    return pageSocket().followFleet({ fleet: name, receive: (frame) => setKnown((before) => applied(before, frame)) });
  }, [name]);
  return known;
}

export interface Asked<Answer> {
  readonly answer: Answer | null;
  readonly problem: RequestFailed | null;
}

/** Asks again whenever `key` is another one; what was known stays until the new answer is there. */
export function useAsked<Answer>(ask: ((signal: AbortSignal) => Promise<Answer>) | null, key: string): Asked<Answer> {
  const [known, setKnown] = useState<Asked<Answer>>({ answer: null, problem: null });
  useEffect(() => {
    if (!ask) return undefined;
    const abort = new AbortController();
    ask(abort.signal).then(
      (answer) => !abort.signal.aborted && setKnown({ answer, problem: null }),
      (error: unknown) => !abort.signal.aborted && setKnown({ answer: null, problem: error instanceof RequestFailed ? error : new RequestFailed(0, String(error)) }),
    );
    return () => abort.abort();
  }, [key]);
  return known;
}
