import { useState } from "react";
import { monogram } from "../inbox/agent_badge.js";
import { Segments } from "../shell/segments.js";
import { inOneLine } from "../text/unseen.js";
import { lastFolder, seriesOf, tintsOf, unpricedIn, type Bill, type Measure, type Series, type Split } from "./bill.js";
import { amount, dayName, StackedDays } from "./stacked_days.js";

const SPLITS: readonly (readonly [Split, string])[] = [
  ["agent", "Agent"],
  ["project", "Project"],
  ["model", "Model"],
];
const MEASURES: readonly (readonly [Measure, string])[] = [
  ["cost", "Cost"],
  ["tokens", "Tokens"],
];

interface ByDayProps {
  readonly bill: Bill;
  readonly days: readonly string[];
  readonly split: Split;
  readonly measure: Measure;
  readonly titles: ReadonlyMap<string, string>;
  readonly onSplit: (split: Split) => void;
  readonly onMeasure: (measure: Measure) => void;
}

export function ByDay({ bill, days, split, measure, titles, onSplit, onMeasure }: ByDayProps) {
  const [isTable, setTable] = useState(false);
  const series = seriesOf(bill.rows, days, split, measure);
  const nameOf = ({ key, isOthers }: Series) => {
    if (isOthers) return "Others";
    const name = split === "agent" ? (titles.get(key) ?? key) : split === "project" ? lastFolder(key) : key;
    return inOneLine(name, "code") || "unknown";
  };
  const tints = tintsOf(series, (key) => (split === "agent" ? monogram(key, titles.get(key) ?? key).tint : 0));
  const colourOf = (_one: Series, index: number) => (tints[index] ? `var(--agent-${tints[index]})` : "var(--ink-faint)");
  const unpriced = measure === "cost" ? unpricedIn(bill.rows, days, split) : [];
  return (
    <section className="usage-panel usage-days" aria-labelledby="usage-days">
      <div className="usage-head">
        <h2 id="usage-days">By day</h2>
        <Segments label="Split by" options={SPLITS} value={split} onChange={onSplit} />
        <Segments label="Show" options={MEASURES} value={measure} onChange={onMeasure} />
      </div>
      {isTable ? (
        <Table days={days} series={series} measure={measure} nameOf={nameOf} />
      ) : (
        <div className="usage-plot" ref={showNewest} tabIndex={0} role="group" aria-label="By day, as a plot">
          <StackedDays days={days} series={series} measure={measure} nameOf={nameOf} colourOf={colourOf} />
        </div>
      )}
      <div className="usage-legend">
        {series.map((one, index) => (
          <span key={one.key}>
            <i style={{ background: colourOf(one, index) }} />
            {nameOf(one)}
          </span>
        ))}
        {unpriced.map((key) => (
          <span key={key} className="faint">
            <i className="no-price" />
            {nameOf({ key, isOthers: false, values: [], total: 0 })}: no price is known
          </span>
        ))}
        <button type="button" className="link" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          {isTable ? "As a plot" : "As a table"}
        </button>
      </div>
    </section>
  );
}

/** Where there is no room for all days, today is what is seen first. */
function showNewest(plot: HTMLDivElement | null): void {
  if (plot) plot.scrollLeft = plot.scrollWidth;
}

interface TableProps {
  readonly days: readonly string[];
  readonly series: readonly Series[];
  readonly measure: Measure;
  readonly nameOf: (series: Series) => string;
}

function Table({ days, series, measure, nameOf }: TableProps) {
  return (
    <div className="table-frame" tabIndex={0} role="group" aria-label="By day, as a table">
      <table className="data usage-data">
        <thead>
          <tr>
            <th scope="col">Day</th>
            {series.map((one) => (
              <th key={one.key} scope="col">
                {nameOf(one)}
              </th>
            ))}
            <th scope="col">Total</th>
          </tr>
        </thead>
        <tbody>
          {days.map((day, index) => (
            <tr key={day}>
              <th scope="row">{dayName(day)}</th>
              {series.map((one) => (
                <td key={one.key}>{one.values[index] ? amount(one.values[index]!, measure) : ""}</td>
              ))}
              <td>{amount(series.reduce((sum, one) => sum + one.values[index]!, 0), measure)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
