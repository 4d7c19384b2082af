/** How far a fleet is, as a bar, a sign and words. */

import { roughly } from "../amounts.js";
import { Icon, type IconName } from "../shell/icon.js";
import { ended, isAlive, type FleetState, type FleetSummary } from "./fleet_state.js";

const PARTS = ["passed", "failed", "done", "errors", "running"] as const;
const WORDS = { passed: "passed", failed: "did not pass", done: "without a check", errors: "errors", running: "running" } as const;

export function Progress({ summary }: { readonly summary: FleetSummary }) {
  const shown = PARTS.filter((part) => summary[part] > 0);
  const words = [...shown.map((part) => `${summary[part]} ${WORDS[part]}`), summary.waiting ? `${summary.waiting} waiting` : ""].filter(Boolean).join(", ");
  return (
    <span className="fleet-progress" role="img" aria-label={`${ended(summary)} of ${summary.cases} cases have ended: ${words}`}>
      {shown.map((part) => (
        <i key={part} data-part={part} style={{ width: `${(summary[part] / Math.max(1, summary.cases)) * 100}%` }} />
      ))}
    </span>
  );
}

const SIGNS: { readonly [State in FleetState]: readonly [shape: string, icon: IconName | null, tone: string] } = {
  planned: ["idle", null, ""],
  running: ["run", null, ""],
  stopping: ["bg", null, ""],
  completed: ["sign", "check", "good"],
  budget: ["ask", null, ""],
  stopped: ["sign", "stop", "faint"],
  interrupted: ["lost", null, ""],
  broken: ["sign", "close", "bad"],
};

export function FleetSign({ state }: { readonly state: FleetState }) {
  const [shape, icon, tone] = SIGNS[state] ?? SIGNS.planned;
  return (
    <span className={`state ${shape} ${tone}`} aria-hidden="true">
      {icon && <Icon name={icon} isSmall={icon === "stop"} />}
    </span>
  );
}

export function TimeLeft({ summary }: { readonly summary: FleetSummary }) {
  if (!isAlive(summary) || summary.leftS === null) return null;
  return <span className="faint num"> · about {roughly(summary.leftS * 1_000)} left</span>;
}
