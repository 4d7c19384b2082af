import { cost } from "../amounts.js";
import { useInbox } from "../inbox/inbox_store.js";
import type { Bill } from "./bill.js";
import { MonthPace } from "./month_pace.js";

const WARN_SHARE = 0.8;

/** The pace of the month, and the limit of a day. */
export function MonthPanel({ bill, today }: { bill: Bill; today: Date }) {
  const { today: spent } = useInbox();
  const share = spent.limitUsd ? Math.min(1, (spent.costUsd ?? 0) / spent.limitUsd) : 0;
  return (
    <section className="usage-panel usage-month" aria-labelledby="usage-month">
      <h2 id="usage-month">This month</h2>
      <MonthPace rows={bill.rows} today={today} />
      {spent.limitUsd === null ? (
        <p className="small faint">No limit is set.</p>
      ) : (
        <div>
          <p className="usage-limit">
            <span>A day</span>
            <span className="num">
              {cost(spent.costUsd, spent.isCostComplete)} of {cost(spent.limitUsd)}
            </span>
          </p>
          <div className={share >= WARN_SHARE ? "budget warn" : "budget"} aria-hidden="true">
            <i style={{ width: `${share * 100}%` }} />
          </div>
        </div>
      )}
    </section>
  );
}
