import { cost } from "../amounts.js";
import type { LimitSpent } from "../api.js";
import { SETTINGS_ADDRESS } from "../route.js";
import { inOneLine } from "../text/unseen.js";
import { lastFolder, type Bill } from "./bill.js";
import { MonthPace } from "./month_pace.js";

const WARN_SHARE = 0.8;
const HOUR_MS = 3_600_000;
const SHOWN_MAX = 4;

/** The pace of the month, the limits, and what is left of each. `limits`: null when they are not known. */
export function MonthPanel({ bill, today, limits }: { bill: Bill; today: Date; limits: readonly LimitSpent[] | null }) {
  const ordered = [...(limits ?? [])].sort((left, right) => rankOf(right) - rankOf(left));
  const [shown, rest] = [ordered.slice(0, SHOWN_MAX), ordered.slice(SHOWN_MAX)];
  const ofMonth = limits?.find(({ period, project }) => period === "month" && !project);
  return (
    <section className="usage-panel usage-month" aria-labelledby="usage-month">
      <h2 id="usage-month">This month</h2>
      <MonthPace rows={bill.rows} today={today} limitUsd={ofMonth?.limitUsd ?? null} />
      <h3 className="usage-limits-title">Budgets and what is left</h3>
      {shown.map((limit) => (
        <LimitBar key={`${limit.period} ${limit.project}`} limit={limit} now={today} />
      ))}
      {rest.length > 0 && (
        <details className="usage-more-limits">
          <summary className="small">{rest.length === 1 ? "1 more project" : `${rest.length} more projects`}</summary>
          {rest.map((limit) => (
            <LimitBar key={`${limit.period} ${limit.project}`} limit={limit} now={today} />
          ))}
        </details>
      )}
      {limits && !limits.length && <p className="small faint">No limit is set.</p>}
      <a className="button small" href={SETTINGS_ADDRESS}>
        {limits?.length ? "Change limits" : "Set a limit"}
      </a>
    </section>
  );
}

/** Those of all projects first, then the one that is nearest to being reached. */
function rankOf({ project, spentUsd, limitUsd }: LimitSpent): number {
  return project ? spentUsd / limitUsd : Number.MAX_VALUE;
}

function LimitBar({ limit, now }: { limit: LimitSpent; now: Date }) {
  const { limitUsd, spentUsd, leftUsd, isCostComplete, isReached } = limit;
  const share = Math.min(1, spentUsd / limitUsd);
  const name = titleOf(limit);
  return (
    <div>
      <p className="usage-limit">
        <span className="clipped">{name}</span>
        <span className="num">
          {cost(spentUsd, isCostComplete)} of {cost(limitUsd)}
        </span>
      </p>
      <div className={share >= WARN_SHARE ? "budget warn" : "budget"} aria-hidden="true">
        <i style={{ width: `${share * 100}%` }} />
      </div>
      <p className="small faint">
        {isReached ? "reached: runs ask before they continue" : `${isCostComplete ? "" : "at most "}${cost(leftUsd)} left`} · resets {resetWords(limit, now)}
      </p>
    </div>
  );
}

/** `A day`, `A month`, `shop, a day`. */
export function titleOf({ period, project }: Pick<LimitSpent, "period" | "project">): string {
  return project ? `${inOneLine(lastFolder(project), "code")}, a ${period}` : `A ${period}`;
}

function resetWords({ period, resetsMs }: LimitSpent, now: Date): string {
  if (period === "day") return `in ${Math.max(1, Math.ceil((resetsMs - now.getTime()) / HOUR_MS))} h`;
  return `on ${new Date(resetsMs).toLocaleDateString("en-GB", { day: "numeric", month: "short" })}`;
}
