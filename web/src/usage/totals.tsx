import { cost } from "../amounts.js";
import { useInbox } from "../inbox/inbox_store.js";
import { ENDING_NAMES, endingsOf, sumOf, type UsageRow } from "./bill.js";
import type { Bills } from "./use_bills.js";

/** The period, today, what came from the cache, and how the runs ended. */
export function Totals({ bills, days, name }: { bills: Bills; days: readonly string[]; name: string }) {
  const { today } = useInbox();
  const isInside = (row: UsageRow) => !!row.day && days.includes(row.day);
  const own = bills.days.rows.filter(isInside);
  const before = sumOf(bills.days.rows.filter((row) => !isInside(row)), "cost");
  const sum = sumOf(own, "cost");
  const isKnown = own.some((row) => row.cost_usd !== null);
  const ofToday = own.filter(({ day }) => day === days.at(-1));
  const todaySum = sumOf(ofToday, "cost");
  const cached = own.reduce((total, row) => total + (row.cache_read ?? 0), 0);
  const read = own.reduce((total, row) => total + (row.input ?? 0) + (row.cache_read ?? 0) + (row.cache_write ?? 0), 0);
  const { outcomes } = bills.models;
  const endings = endingsOf(outcomes);
  return (
    <div className="usage-totals">
      <Total name={name} value={isKnown || !own.length ? cost(sum.value, sum.isComplete) : "–"} note={changeOf(sum.value, before.value)} />
      <Total name="Today" value={ofToday.length && !ofToday.some((row) => row.cost_usd !== null) ? "–" : cost(todaySum.value, todaySum.isComplete)} note={leftOf(today.limitUsd, todaySum.value)} />
      <Total name="From the cache" value={read ? `${Math.round((100 * cached) / read)} %` : "–"} note="of what models read" />
      <Total name="Runs" value={String(outcomes.reduce((sum, { runs }) => sum + runs, 0))} note={ENDING_NAMES.flatMap((ending) => (endings.has(ending) ? [`${endings.get(ending)} ${ending}`] : [])).join(" · ") || "none in this time"} />
    </div>
  );
}

function Total({ name, value, note }: { name: string; value: string; note: string }) {
  return (
    <section className="usage-panel usage-total">
      <h2 className="small faint">{name}</h2>
      <p className="big">{value}</p>
      <p className="small faint">{note}</p>
    </section>
  );
}

function changeOf(now: number, before: number): string {
  if (!before) return "nothing in the time before";
  const percent = Math.round((100 * (now - before)) / before);
  return percent === 0 ? "as much as before" : `${Math.abs(percent)} % ${percent < 0 ? "less" : "more"} than before`;
}

function leftOf(limitUsd: number | null, spentUsd: number): string {
  if (limitUsd === null) return "no limit is set";
  return spentUsd >= limitUsd ? `the limit of ${cost(limitUsd)} is reached` : `at most ${cost(limitUsd - spentUsd)} left of ${cost(limitUsd)}`;
}
