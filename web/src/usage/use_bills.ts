import { useEffect, useState } from "react";
import { api, request, type LimitSpent, type RequestFailed } from "../api.js";
import { dayOf, lastDays, type Bill, type Split, type UsageFilter } from "./bill.js";

export interface Bills {
  /** By day and what it is split by: of the period, and of the one before it. */
  readonly days: Bill;
  readonly projects: Bill;
  readonly models: Bill;
  readonly sessions: Bill;
  /** By day, of this month. */
  readonly month: Bill;
  /** Of `harness budget`; null when they are not known. */
  readonly limits: readonly LimitSpent[] | null;
}

export interface KnownBills {
  readonly bills: Bills | null;
  readonly problem: RequestFailed | null;
}

/** `days`: how many, up to today. */
export function useBills(days: number, split: Split, filter: UsageFilter): KnownBills {
  const [known, setKnown] = useState<KnownBills>({ bills: null, problem: null });
  const { agent, project } = filter;
  useEffect(() => {
    const abort = new AbortController();
    const today = new Date();
    const [before, since] = [lastDays(days * 2, today)[0]!, lastDays(days, today)[0]!];
    const month = dayOf(new Date(today.getFullYear(), today.getMonth(), 1));
    const ask = (by: string, from: string, along = "") => fetchBill({ by, split: along, since: from, agent, project }, abort.signal);
    Promise.all([ask("day", before, split), ask("project", since), ask("model", since, "agent"), ask("session", since), ask("day", month), limitsNow(abort.signal)]).then(
      ([byDay, projects, models, sessions, ofMonth, limits]) => setKnown({ bills: { days: byDay, projects, models, sessions, month: ofMonth, limits }, problem: null }),
      (problem: RequestFailed) => !abort.signal.aborted && setKnown((last) => ({ ...last, problem })),
    );
    return () => abort.abort();
  }, [days, split, agent, project]);
  return known;
}

/** A wrong setting must not hide what was used. */
function limitsNow(signal: AbortSignal): Promise<readonly LimitSpent[] | null> {
  return api.budget(signal).then(
    ({ limits }) => limits,
    () => null,
  );
}

function fetchBill(wanted: { readonly by: string; readonly split?: string; readonly since: string } & UsageFilter, signal: AbortSignal): Promise<Bill> {
  const query = Object.entries(wanted).filter(([, value]) => value) as [string, string][];
  return request<Bill>("GET", `api/usage?${new URLSearchParams(query)}`, undefined, signal);
}
