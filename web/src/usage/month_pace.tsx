import { useId } from "react";
import { cost, roundMoney } from "../amounts.js";
import { ceilingOf, type UsageRow } from "./bill.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [340, 168, 38, 332, 12, 142] as const;

/** What this month has cost so far, and where it leads at the same pace. */
export function MonthPace({ rows, today, limitUsd }: { rows: readonly UsageRow[]; today: Date; limitUsd: number | null }) {
  const id = useId();
  const length = new Date(today.getFullYear(), today.getMonth() + 1, 0).getDate();
  const date = today.getDate();
  const byDate = new Map(rows.map((row) => [Number(row.day?.slice(-2)), row.cost_usd ?? 0]));
  let sum = 0;
  const sums = Array.from({ length: date }, (_, index) => (sum += byDate.get(index + 1) ?? 0));
  const isComplete = rows.every((row) => row.is_cost_complete);
  const expected = (sum / date) * length;
  const ceiling = ceilingOf(Math.max(expected, sum, limitUsd ?? 0));
  const xOf = (day: number) => LEFT + ((day - 1) / Math.max(1, length - 1)) * (RIGHT - LEFT);
  const yOf = (value: number) => BOTTOM - (value / ceiling) * (BOTTOM - TOP);
  const month = today.toLocaleDateString("en-GB", { month: "short" });
  const shown = `${isComplete ? "" : "≥ "}$${sum.toFixed(sum < 10 ? 2 : 0)}`;
  return (
    <svg className="plot" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-labelledby={`${id}-title ${id}-text`}>
      <title id={`${id}-title`}>Cost of this month so far</title>
      <desc id={`${id}-text`}>{`${cost(sum, isComplete)} after ${date} days. At this pace about ${roundMoney(expected)} by the end.${limitUsd === null ? "" : ` The limit is ${cost(limitUsd)}.`}`}</desc>
      {[0, 0.5, 1].map((share) => (
        <g key={share}>
          <line className="axis" x1={LEFT} x2={RIGHT} y1={yOf(share * ceiling)} y2={yOf(share * ceiling)} />
          <text x={LEFT - 6} y={yOf(share * ceiling) + 4} textAnchor="end">
            ${share * ceiling < 10 ? +(share * ceiling).toFixed(2) : Math.round(share * ceiling)}
          </text>
        </g>
      ))}
      {limitUsd !== null && <line className="limit" x1={LEFT} x2={RIGHT} y1={yOf(limitUsd)} y2={yOf(limitUsd)} />}
      <polyline points={sums.map((value, index) => `${xOf(index + 1).toFixed(1)},${yOf(value).toFixed(1)}`).join(" ")} className="pace" />
      {date < length && <line x1={xOf(date)} y1={yOf(sum)} x2={xOf(length)} y2={yOf(expected)} className="pace coming" />}
      <circle cx={xOf(date)} cy={yOf(sum)} r={3.5} className="pace-now" />
      <text x={Math.max(LEFT + 30, xOf(date) - 6)} y={yOf(sum) - 9} textAnchor="end" className="strong">
        {shown}
      </text>
      {date < length && sum > 0 && (
        <text x={RIGHT - 4} y={Math.max(TOP + 10, yOf(expected) - 8)} textAnchor="end">
          about {roundMoney(expected)}
        </text>
      )}
      <text x={LEFT} y={HEIGHT - 6}>
        1 {month}
      </text>
      <text x={RIGHT} y={HEIGHT - 6} textAnchor="end">
        {length} {month}
      </text>
    </svg>
  );
}
