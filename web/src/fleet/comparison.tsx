/** Two variants on the same tasks: who is better, how sure that is, and where they differ. */

import { inOneLine } from "../text/unseen.js";
import { fleetApi, useAsked } from "./fleet_api.js";
import { percent, ratioWords, verdictOf, type FleetView } from "./fleet_state.js";
import { Interval } from "./report_table.js";

interface ComparisonProps {
  readonly view: FleetView;
  readonly a: string;
  readonly b: string;
  readonly onChoose: (a: string, b: string) => void;
}

const CHANGED_SHOWN = 12;

export function ComparisonPanel({ view, a, b, onChoose }: ComparisonProps) {
  const { name, passed, failed } = view.summary;
  const { answer, problem } = useAsked((signal) => fleetApi.compare(name, a, b, signal), JSON.stringify([a, b, passed, failed]));
  const isCurrent = answer?.comparison.a.endsWith(`:${a}`) && answer.comparison.b.endsWith(`:${b}`);
  const found = isCurrent ? answer!.comparison : null;
  const verdict = found && verdictOf(found, inOneLine(a), inOneLine(b));
  return (
    <section className="fleet-panel" aria-labelledby="fleet-compare">
      <div className="fleet-panel-head">
        <h2 id="fleet-compare">Compare</h2>
        <Pick label="Baseline" value={a} names={view.variants.map((one) => one.name)} onChange={(next) => onChoose(next, next === b ? a : b)} />
        <span className="faint">with</span>
        <Pick label="Compared with it" value={b} names={view.variants.map((one) => one.name)} onChange={(next) => onChoose(next === a ? b : a, next)} />
      </div>
      {problem && <p className="small faint">Nothing to compare yet: {inOneLine(problem.message)}.</p>}
      {found && verdict && (
        <>
          <p className="fleet-verdict" data-clear={found.is_clear || undefined}>
            <strong>{verdict.head}.</strong> {verdict.text}
          </p>
          <div className="fleet-difference">
            <span className="tiny faint">{inOneLine(a)} better</span>
            <Interval value={found.difference} low={found.low} high={found.high} from={-1} to={1} />
            <span className="tiny faint">{inOneLine(b)} better</span>
            <span className="small soft">
              {[
                `better on ${found.better}, worse on ${found.worse}`,
                `paired t test over tasks, p = ${found.p_value.toFixed(3)}`,
                ratioWords(found.cost_ratio, "cost"),
                ratioWords(found.time_ratio, "time"),
                found.left_out ? `${found.left_out} tasks without a verdict on both sides do not count` : "",
              ]
                .filter(Boolean)
                .join(" · ")}
            </span>
          </div>
          {found.changed.length > 0 && (
            <ul className="fleet-changed small">
              {found.changed.slice(0, CHANGED_SHOWN).map((one) => (
                <li key={one.task}>
                  <span className="clip">{inOneLine(one.task, "code")}</span>
                  <span className="num">
                    {percent(one.a)} → <b className={one.b > one.a ? "good" : "bad"}>{percent(one.b)}</b>
                  </span>
                </li>
              ))}
              {found.changed.length > CHANGED_SHOWN && <li className="faint">{found.changed.length - CHANGED_SHOWN} more</li>}
            </ul>
          )}
        </>
      )}
    </section>
  );
}

interface PickProps {
  readonly label: string;
  readonly value: string;
  readonly names: readonly string[];
  readonly onChange: (name: string) => void;
}

function Pick({ label, value, names, onChange }: PickProps) {
  return (
    <select className="fleet-pick" aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      {names.map((name) => (
        <option key={name} value={name}>
          {inOneLine(name, "code")}
        </option>
      ))}
    </select>
  );
}
