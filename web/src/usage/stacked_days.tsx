import { useId } from "react";
import { count, roundMoney } from "../amounts.js";
import { ceilingOf, type Measure, type Series } from "./bill.js";

const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [760, 276, 44, 14, 250] as const;
const SHARES = [0, 1 / 3, 2 / 3, 1] as const;
const LABELLED_MAX = 16;

interface StackedDaysProps {
  readonly days: readonly string[];
  readonly series: readonly Series[];
  readonly measure: Measure;
  readonly nameOf: (series: Series) => string;
  readonly colourOf: (series: Series, index: number) => string;
}

/** A column per day, in parts. The same numbers are in a table for who cannot see it. */
export function StackedDays({ days, series, measure, nameOf, colourOf }: StackedDaysProps) {
  const id = useId();
  const totals = days.map((_, index) => series.reduce((sum, one) => sum + one.values[index]!, 0));
  const highest = Math.max(...totals, 0);
  const ceiling = ceilingOf(highest);
  const step = (WIDTH - LEFT) / days.length;
  const yOf = (value: number) => BOTTOM - (value / ceiling) * (BOTTOM - TOP);
  const peak = totals.indexOf(highest);
  const every = Math.ceil(days.length / LABELLED_MAX);
  return (
    <svg className="plot" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-labelledby={`${id}-title ${id}-text`}>
      <title id={`${id}-title`}>{measure === "cost" ? "Cost" : "Tokens"} by day</title>
      <desc id={`${id}-text`}>
        {highest > 0 ? `Highest on ${dayName(days[peak]!)} with ${amount(highest, measure)}. The table has every number.` : "Nothing was used in this time."}
      </desc>
      {SHARES.map((share) => (
        <g key={share}>
          <line className="axis" x1={LEFT} x2={WIDTH} y1={yOf(share * ceiling)} y2={yOf(share * ceiling)} />
          <text x={LEFT - 8} y={yOf(share * ceiling) + 4} textAnchor="end">
            {axis(share * ceiling, measure)}
          </text>
        </g>
      ))}
      {days.map((day, index) => (
        <g key={day}>
          <Column values={series.map((one) => one.values[index]!)} x={LEFT + index * step + step * 0.16} width={step * 0.68} yOf={yOf} colours={series.map(colourOf)} titles={series.map((one) => `${nameOf(one)}: ${amount(one.values[index]!, measure)}`)} />
          {totals[index]! > 0 && days.length <= LABELLED_MAX && (
            <text x={LEFT + (index + 0.5) * step} y={yOf(totals[index]!) - 6} textAnchor="middle" className={index === peak ? "strong" : undefined}>
              {measure === "cost" ? roundMoney(totals[index]!) : count(totals[index]!)}
            </text>
          )}
          {index % every === 0 && (
            <text x={LEFT + (index + 0.5) * step} y={HEIGHT - 6} textAnchor="middle" className={index === days.length - 1 ? "strong" : undefined}>
              {dayName(day)}
            </text>
          )}
        </g>
      ))}
    </svg>
  );
}

interface ColumnProps {
  readonly values: readonly number[];
  readonly x: number;
  readonly width: number;
  readonly yOf: (value: number) => number;
  readonly colours: readonly string[];
  readonly titles: readonly string[];
}

function Column({ values, x, width, yOf, colours, titles }: ColumnProps) {
  let below = 0;
  return values.map((value, index) => {
    if (value <= 0) return null;
    const [bottom, top] = [yOf(below), yOf(below + value)];
    below += value;
    return (
      <rect key={index} x={x} y={top} width={width} height={Math.max(0.5, bottom - top - 1)} rx={1.5} fill={colours[index]}>
        <title>{titles[index]}</title>
      </rect>
    );
  });
}

export function amount(value: number, measure: Measure): string {
  return measure === "cost" ? `$${value.toFixed(2)}` : `${count(value)} tokens`;
}

function axis(value: number, measure: Measure): string {
  if (measure === "tokens") return count(Math.round(value));
  return `$${value >= 10 || Number.isInteger(value) ? Math.round(value) : value.toFixed(value < 0.1 ? 3 : 2)}`;
}

/** “Wed 11” */
export function dayName(day: string): string {
  const [year, month, date] = day.split("-").map(Number) as [number, number, number];
  return `${new Date(year, month - 1, date).toLocaleDateString("en-GB", { weekday: "short" })} ${date}`;
}
