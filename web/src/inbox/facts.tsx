/** The small facts of a row: where, what it changed, what it costs, how full its context is. */

import { useEffect, useState } from "react";
import { cost, moment, roughly, share } from "../amounts.js";
import { inOneLine } from "../text/unseen.js";
import { needsYou, works, type InboxRow } from "./row.js";
import { refusedWords } from "./row_state.js";

interface DeltaProps {
  readonly added: number;
  readonly removed: number;
  /** False: commands may have changed more. */
  readonly isComplete?: boolean;
}

export function Delta({ added, removed, isComplete = true }: DeltaProps) {
  if (!added && !removed) return null;
  return (
    <span className="delta" title={isComplete ? undefined : "Edits of the agent; its commands may have changed more"}>
      {!isComplete && <span className="faint">≥</span>}
      {added > 0 && <span className="plus">+{added.toLocaleString("en")}</span>}
      {removed > 0 && <span className="minus">−{removed.toLocaleString("en")}</span>}
    </span>
  );
}

export function Cost({ row }: { readonly row: InboxRow }) {
  return <span className="num fact-cost">{cost(row.costUsd, row.isCostComplete)}</span>;
}

/** Calls that were not allowed: said wherever the row says how it ended. */
export function Refused({ row }: { readonly row: InboxRow }) {
  const words = refusedWords(row);
  return words ? (
    <span className="fact-refused" title="Calls that were not allowed: by you, by a rule, or by the agent’s own settings">
      {words}
    </span>
  ) : null;
}

const ALMOST_FULL = 85;

export function ContextUsed({ row }: { readonly row: InboxRow }) {
  const { used, limit } = row.context ?? { used: 0, limit: null };
  if (!limit) return <span className="num fact-context" />;
  const percent = share(used, limit);
  return (
    <span className="num fact-context" title={`${used.toLocaleString("en")} of ${limit.toLocaleString("en")} tokens of context`}>
      <span className={percent >= ALMOST_FULL ? "meter warn" : "meter"} aria-hidden="true">
        <i style={{ width: `${percent}%` }} />
      </span>{" "}
      {percent} %
    </span>
  );
}

/** “shop · fix/checkout”. */
export function whereOf({ project, worktree, branch }: InboxRow): string {
  return inOneLine([project.name, worktree || branch].filter(Boolean).join(" · "), "code");
}

/** Marks a session that Harness has not recorded. */
export function HistoryMark({ row }: { readonly row: InboxRow }) {
  if (!row.history) return null;
  const words = `in ${inOneLine(row.history)}’s own history`;
  return (
    <span className="history-mark" title={`${words}: read there, never changed`}>
      <span className="wide-only">{words}</span>
      <span className="narrow-only">own history</span>
    </span>
  );
}

export function titleOf(row: InboxRow): string {
  return inOneLine(row.title) || "Untitled";
}

/** A path as its owner writes it: from the folder of the run, else from the home. */
export function shortPath(path: string, cwd = ""): string {
  if (cwd && path.startsWith(`${cwd}/`)) return inOneLine(path.slice(cwd.length + 1), "code");
  return inOneLine(path.replace(/^\/(?:home|Users)\/[^/]+(?=\/|$)/, "~").replace(/^\/root(?=\/|$)/, "~"), "code");
}

/** How long it waits or runs, else when it ended: the same number wherever it is shown. */
export function RowTime({ row }: { readonly row: InboxRow }) {
  const now = useNow(needsYou(row) || works(row) ? 1_000 : 60_000);
  if (needsYou(row)) return roughly(now - (row.asks[0]?.askedMs || row.stateSinceMs));
  return works(row) ? roughly(now - row.startedMs) : moment(row.updatedMs, now);
}

/** The time, looked at again so often. */
export function useNow(every_ms: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every_ms);
    return () => clearInterval(timer);
  }, [every_ms]);
  return now;
}
