/** One fleet: how far it is, every case, what runs now, the numbers, and two of them compared. */

import { useEffect, useRef, useState } from "react";
import { cost, roughly, shortTime } from "../amounts.js";
import { setTitle } from "../inbox/alerts.js";
import { useNow } from "../inbox/facts.js";
import { FLEET_ADDRESS, fleetAddress, go } from "../route.js";
import { Icon } from "../shell/icon.js";
import { useKeys } from "../shell/keys.js";
import { inOneLine } from "../text/unseen.js";
import { Beside } from "./beside.js";
import { CasePanel } from "./case_panel.js";
import { ComparisonPanel } from "./comparison.js";
import { FleetActions } from "./fleet_actions.js";
import { useFleet } from "./fleet_api.js";
import { caseTitle, ended, fleetWords, isAlive, type FleetCase, type FleetSummary, type FleetView } from "./fleet_state.js";
import { Matrix } from "./matrix.js";
import { FleetSign, Progress, TimeLeft } from "./progress.js";
import { ReportTable } from "./report_table.js";

interface OneFleetProps {
  readonly name: string;
  /** `case`: the one that is open; `beside`: another one beside it; `a`, `b`: the variants that are compared. */
  readonly wanted: URLSearchParams;
}

export function OneFleet({ name, wanted }: OneFleetProps) {
  const { view, problem } = useFleet(name);
  useEffect(() => setTitle(`${inOneLine(name)} – Fleets – Harness`), [name]);
  useKeys({ Escape: () => go(wanted.get("case") ? without(name, wanted) : FLEET_ADDRESS) });
  return (
    <main className="main">
      <header className="bar fleet-bar">
        <a className="square" href={FLEET_ADDRESS} aria-label="All fleets" title="All fleets">
          <Icon name="back" />
        </a>
        <h1 className="clip">{inOneLine(name, "code")}</h1>
        {view && (
          <span className="fleet-state small" role="status">
            <FleetSign state={view.summary.state} /> {fleetWords(view.summary)}
          </span>
        )}
        <span className="grow" />
        {view && <FleetActions summary={view.summary} />}
      </header>
      {view ? (
        <Shown view={view} problem={problem || view.summary.problem} wanted={wanted} />
      ) : (
        <div className="scroll" tabIndex={0} role="group" aria-label="Fleet">
          <p className={problem ? "fleet-note problem" : "fleet-note faint"} role={problem ? "alert" : "status"}>
            {problem ? inOneLine(problem) : "Reading the fleet…"}
          </p>
        </div>
      )}
    </main>
  );
}

/** The address without the case that is open. */
function without(name: string, wanted: URLSearchParams): string {
  return fleetAddress(name, { ...Object.fromEntries(wanted), case: "", beside: "" });
}

/** When a case is closed, its sign has the focus again. */
function useFocusBack(chosen: string): void {
  const last = useRef("");
  useEffect(() => {
    if (last.current && !chosen) document.querySelector<HTMLElement>(`[data-case="${CSS.escape(last.current)}"]`)?.focus();
    last.current = chosen;
  }, [chosen]);
}

function Shown({ view, problem, wanted }: { readonly view: FleetView; readonly problem: string; readonly wanted: URLSearchParams }) {
  const scroller = useRef<HTMLDivElement>(null);
  const { name } = view.summary;
  const chosen = view.cases.find((one) => one.id === wanted.get("case")) ?? null;
  const beside = (chosen && view.cases.find((one) => one.id === wanted.get("beside") && one.task === chosen.task)) || null;
  const show = (change: Readonly<Record<string, string>>) => go(fleetAddress(name, { ...Object.fromEntries(wanted), ...change }));
  const close = () => go(without(name, wanted));
  useFocusBack(chosen?.id ?? "");
  const names = view.variants.map((one) => one.name);
  const nameIn = (key: string, fallback: string | undefined) => names.find((one) => one === wanted.get(key)) ?? fallback ?? "";
  const a = nameIn("a", names[0]);
  const b = nameIn("b", names.find((one) => one !== a));
  return (
    <div ref={scroller} className="scroll" tabIndex={0} role="group" aria-label="Fleet">
      {problem && (
        <p className="fleet-note problem" role="alert">
          {inOneLine(problem)}
        </p>
      )}
      <div className="fleet-page" data-open={chosen ? true : undefined}>
        <Totals summary={view.summary} />
        <section className="fleet-panel fleet-cases" aria-labelledby="fleet-cases">
          <h2 id="fleet-cases">Cases</h2>
          <Matrix view={view} chosen={chosen?.id ?? ""} onChoose={(id) => (id === chosen?.id ? close() : show({ case: id, beside: "" }))} />
        </section>
        {chosen && <CasePanel view={view} one={chosen} beside={beside?.id ?? ""} onBeside={(id) => show({ beside: id })} onClose={close} />}
        {chosen && chosen.attempts > 0 && <Beside view={view} left={chosen} right={beside} scroller={scroller} onClose={() => show({ beside: "" })} />}
        <RunningCases view={view} onChoose={(id) => show({ case: id, beside: "" })} />
        <ReportTable report={view.report} repeats={view.repeats} />
        {names.length > 1 && <ComparisonPanel view={view} a={a} b={b} onChoose={(left, right) => show({ a: left, b: right })} />}
      </div>
    </div>
  );
}

function Totals({ summary }: { readonly summary: FleetSummary }) {
  const { costUsd, isCostComplete, budgetUsd, startedMs, updatedMs } = summary;
  const share = budgetUsd ? Math.min(100, (costUsd / budgetUsd) * 100) : 0;
  return (
    <section className="fleet-totals" aria-label="Progress">
      <div className="fleet-total fleet-total-wide">
        <p className="small faint">Cases</p>
        <p className="fleet-big num">
          {ended(summary)} <span className="faint">of {summary.cases}</span>
        </p>
        <Progress summary={summary} />
        <p className="small num">
          <span className="good">{summary.passed} passed</span> · <span className={summary.failed ? "bad" : "faint"}>{summary.failed} did not</span>
          {summary.done > 0 && ` · ${summary.done} without a check`}
          {summary.errors > 0 && <span className="wait"> · {summary.errors} errors</span>}
          {summary.running > 0 && ` · ${summary.running} running`}
          {summary.waiting > 0 && <span className="faint"> · {summary.waiting} waiting</span>}
        </p>
      </div>
      <div className="fleet-total">
        <p className="small faint">Money</p>
        <p className="fleet-big num">
          {cost(costUsd, isCostComplete)} {budgetUsd !== null && <span className="faint">of {cost(budgetUsd)}</span>}
        </p>
        {budgetUsd !== null && (
          <div className={share >= 80 ? "budget warn" : "budget"} aria-hidden="true">
            <i style={{ width: `${share}%` }} />
          </div>
        )}
        <p className="small faint">{budgetUsd === null ? "No budget was set." : `${Math.round(share)} % of the budget.`}{isCostComplete ? "" : " Some tokens have no known price."}</p>
      </div>
      <div className="fleet-total">
        <p className="small faint">Time</p>
        <Elapsed summary={summary} />
        <p className="small faint num">
          {startedMs !== null && `Began ${shortTime(startedMs)}`}
          {!isAlive(summary) && updatedMs !== null && `, last change ${shortTime(updatedMs)}`}
          <TimeLeft summary={summary} />
        </p>
      </div>
    </section>
  );
}

function Elapsed({ summary }: { readonly summary: FleetSummary }) {
  const now = useNow(1_000);
  const { startedMs, updatedMs } = summary;
  const end = isAlive(summary) ? now : updatedMs;
  return <p className="fleet-big num">{startedMs === null || end === null ? "–" : roughly(end - startedMs)}</p>;
}

const RUNNING_SHOWN = 12;

function RunningCases({ view, onChoose }: { readonly view: FleetView; readonly onChoose: (id: string) => void }) {
  const now = useNow(1_000);
  const [isAll, setAll] = useState(false);
  const running = view.cases.filter((one) => one.state === "running");
  if (!running.length) return null;
  const shown = isAll ? running : running.slice(0, RUNNING_SHOWN);
  return (
    <section className="fleet-panel fleet-wide" aria-labelledby="fleet-running">
      <h2 id="fleet-running">
        Running <span className="count">{running.length}</span>
      </h2>
      <ul className="fleet-running">
        {shown.map((one) => (
          <RunningCase key={one.id} one={one} repeats={view.repeats} now_ms={now} onChoose={onChoose} />
        ))}
      </ul>
      {shown.length < running.length && (
        <button type="button" className="quiet small" onClick={() => setAll(true)}>
          {running.length - shown.length} more
        </button>
      )}
    </section>
  );
}

interface RunningCaseProps {
  readonly one: FleetCase;
  readonly repeats: number;
  readonly now_ms: number;
  readonly onChoose: (id: string) => void;
}

function RunningCase({ one, repeats, now_ms, onChoose }: RunningCaseProps) {
  return (
    <li>
      <button type="button" className="fleet-run" onClick={() => onChoose(one.id)}>
        <span className="state run" aria-hidden="true" />
        <span className="clip">{inOneLine(caseTitle(one, repeats), "code")}</span>
        <code className="clip faint" data-activity>
          {inOneLine(one.activity || "starting", "code")}
        </code>
        <span className="num faint">{one.startedMs === null ? "" : roughly(now_ms - one.startedMs)}</span>
      </button>
    </li>
  );
}
