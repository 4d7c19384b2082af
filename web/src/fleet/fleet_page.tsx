/** One task with several agents: the list of fleets, or one of them. */

import { useEffect } from "react";
import { ago, cost } from "../amounts.js";
import { setTitle } from "../inbox/alerts.js";
import { fleetAddress, go, INBOX_ADDRESS } from "../route.js";
import { CopyButton } from "../shell/copy_button.js";
import { Icon } from "../shell/icon.js";
import { useKeys } from "../shell/keys.js";
import { inOneLine } from "../text/unseen.js";
import { useFleets } from "./fleet_api.js";
import "./fleet.css";
import { ended, fleetWords, type FleetSummary } from "./fleet_state.js";
import { OneFleet } from "./one_fleet.js";
import { FleetSign, Progress, TimeLeft } from "./progress.js";

export function FleetPage({ name, wanted }: { readonly name: string; readonly wanted: URLSearchParams }) {
  return name ? <OneFleet key={name} name={name} wanted={wanted} /> : <FleetList />;
}

function FleetList() {
  const fleets = useFleets();
  useEffect(() => setTitle("Fleets – Harness"), []);
  useKeys({ Escape: () => go(INBOX_ADDRESS) });
  return (
    <main className="main">
      <header className="bar">
        <h1>Fleets</h1>
        {fleets && fleets.length > 0 && <span className="small faint grow num">{fleets.length === 1 ? "1 fleet" : `${fleets.length} fleets`}</span>}
      </header>
      <div className="scroll" tabIndex={0} role="group" aria-label="Fleets">
        <div className="fleet-column">
          {!fleets && (
            <p className="fleet-note faint" role="status">
              <span className="spinner" aria-hidden="true" /> Looking for fleets…
            </p>
          )}
          {fleets?.length === 0 && <NoFleets />}
          {fleets && fleets.length > 0 && (
            <ul className="fleet-list">
              {fleets.map((one) => (
                <FleetRow key={one.name} one={one} />
              ))}
            </ul>
          )}
        </div>
      </div>
    </main>
  );
}

function FleetRow({ one }: { readonly one: FleetSummary }) {
  const isBroken = one.state === "broken";
  return (
    <li>
      <a className="fleet-row" href={fleetAddress(one.name)} data-fleet={one.name}>
        <FleetSign state={one.state} />
        <span className="fleet-row-name clip">{inOneLine(one.name, "code")}</span>
        <span className="fleet-row-state small">
          {fleetWords(one)}
          <TimeLeft summary={one} />
        </span>
        {isBroken ? (
          <span className="fleet-row-problem small bad clip">{inOneLine(one.problem)}</span>
        ) : (
          <>
            <Progress summary={one} />
            <span className="fleet-row-facts small num">
              <span>
                {ended(one)} of {one.cases}
              </span>
              <span className="good">{one.passed} passed</span>
              <span className={one.failed ? "bad" : "faint"}>{one.failed} not</span>
              {one.errors > 0 && <span className="wait">{one.errors} errors</span>}
              <span>
                {cost(one.costUsd, one.isCostComplete)}
                {one.budgetUsd !== null && <span className="faint"> of {cost(one.budgetUsd)}</span>}
              </span>
              {one.updatedMs !== null && <span className="faint">{ago(one.updatedMs)}</span>}
            </span>
          </>
        )}
      </a>
    </li>
  );
}

const COMMANDS: readonly (readonly [words: string, command: string])[] = [
  ["One prompt for two agents, in copies of a project:", 'harness fleet try "Make the tests pass" -a claude -a codex --check "npm test"'],
  ["Tasks, repeated and compared:", "harness fleet run tasks/ -a claude -a codex --repeats 5 --budget-usd 5"],
];

function NoFleets() {
  return (
    <div className="table empty fleet-empty">
      <p className="faint">
        <Icon name="fleet" />
      </p>
      <p className="empty-title">Which agent is better on your repository?</p>
      <p className="small faint">A fleet runs the same tasks with several agents, scores each run with a check, and compares results, cost and time. Start one in a terminal:</p>
      {COMMANDS.map(([words, command]) => (
        <div key={command} className="fleet-command">
          <p className="small">{words}</p>
          <div className="fleet-command-line">
            <code>{command}</code>
            <CopyButton text={command} label="Copy the command" />
          </div>
        </div>
      ))}
      <p className="small faint">It appears here while it runs.</p>
    </div>
  );
}
