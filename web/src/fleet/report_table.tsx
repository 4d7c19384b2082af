/** The numbers of each variant, with their intervals drawn. Unknown is –, never 0. */

import { cost, count } from "../amounts.js";
import { inOneLine } from "../text/unseen.js";
import { percent, seconds, type VariantReport } from "./fleet_state.js";

export function ReportTable({ report, repeats }: { readonly report: readonly VariantReport[]; readonly repeats: number }) {
  const ks = [...new Set(report.flatMap((one) => Object.keys(one.pass_at)))].sort((left, right) => Number(left) - Number(right)).slice(0, 2);
  return (
    <section className="fleet-panel" aria-labelledby="fleet-report">
      <h2 id="fleet-report">Report</h2>
      <div className="fleet-frame" tabIndex={0} role="group" aria-label="Report">
        <table className="data fleet-data">
          <thead>
            <tr>
              <th scope="col">Variant</th>
              <th scope="col">Runs</th>
              <th scope="col">Pass rate, 95 %</th>
              <th scope="col">
                <span className="unseen">Drawn</span>
              </th>
              {ks.map((k) => (
                <th key={`at ${k}`} scope="col" title={`The chance that at least one of ${k} runs solves a task`}>
                  pass@{k}
                </th>
              ))}
              {ks.map((k) => (
                <th key={`all ${k}`} scope="col" title={`The chance that all of ${k} runs solve a task`}>
                  pass^{k}
                </th>
              ))}
              <th scope="col">Solved</th>
              <th scope="col">Errors</th>
              <th scope="col">Cost</th>
              <th scope="col">Per solved</th>
              <th scope="col">Median</th>
              <th scope="col">Tokens in, out</th>
            </tr>
          </thead>
          <tbody>
            {report.map((one) => (
              <tr key={one.variant}>
                <th scope="row">{inOneLine(one.variant, "code")}</th>
                <td>
                  {one.runs}
                  {one.left > 0 && <span className="faint"> of {one.runs + one.left + one.errors}</span>}
                </td>
                <td>
                  {percent(one.pass_rate)} {one.low !== null && one.high !== null && <span className="faint">{`${Math.round(one.low * 100)}–${percent(one.high)}`}</span>}
                </td>
                <td>
                  <Interval value={one.pass_rate} low={one.low} high={one.high} />
                </td>
                {ks.map((k) => (
                  <td key={`at ${k}`}>{percent(one.pass_at[k])}</td>
                ))}
                {ks.map((k) => (
                  <td key={`all ${k}`}>{percent(one.pass_all[k])}</td>
                ))}
                <td>
                  {one.solved} of {one.tasks}
                </td>
                <td className={one.errors ? "wait" : undefined}>{one.errors}</td>
                <td>{cost(one.cost_usd, one.unpriced === 0)}</td>
                <td>{cost(one.cost_per_solved_usd, one.unpriced === 0)}</td>
                <td>{one.median_s === null ? "–" : seconds(one.median_s)}</td>
                <td>{`${tokens(inputOf(one))}, ${tokens(one.usage.output ?? null)}`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="small faint">
        The pass rate is the mean over tasks; its interval shows how certain that is with so few tasks. {repeats > 1 ? "pass^k is the chance that all of k runs pass. " : ""}Crashed runs ended with an error of the agent: they have not passed. Errors are the fault of something else (setup, provider, worker, check) and are in no rate.
      </p>
    </section>
  );
}

const tokens = (amount: number | null) => (amount === null ? "–" : count(amount));

function inputOf({ usage }: VariantReport): number | null {
  const known = [usage.input, usage.cache_read, usage.cache_write].filter((amount) => amount !== undefined);
  return known.length ? known.reduce((sum, amount) => sum + amount, 0) : null;
}

interface IntervalProps {
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  /** Where the axis begins and ends; a line is drawn at 0 if it is between. */
  readonly from?: number;
  readonly to?: number;
}

const WIDTH = 120;
const HEIGHT = 16;

export function Interval({ value, low, high, from = 0, to = 1 }: IntervalProps) {
  if (value === null) return null;
  const x = (share: number) => 4 + ((Math.max(from, Math.min(to, share)) - from) / (to - from)) * (WIDTH - 8);
  return (
    <svg className="fleet-interval" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} aria-hidden="true" focusable="false">
      <line className="axis" x1={x(from)} x2={x(to)} y1={8} y2={8} />
      {from < 0 && <line className="zero" x1={x(0)} x2={x(0)} y1={1} y2={15} />}
      <line className="range" x1={x(low ?? from)} x2={x(high ?? to)} y1={8} y2={8} />
      <circle cx={x(value)} cy={8} r={3.5} />
    </svg>
  );
}
