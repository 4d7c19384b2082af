/** Stop a fleet, continue it, attempt errors again, and take its numbers elsewhere. */

import { useState } from "react";
import { RequestFailed } from "../api.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { fleetApi, saveFile } from "./fleet_api.js";
import type { FleetSummary } from "./fleet_state.js";

type Asking = "" | "stop" | "resume";

export function FleetActions({ summary }: { readonly summary: FleetSummary }) {
  const [asking, setAsking] = useState<Asking>("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const act = (work: () => Promise<unknown>) => {
    setBusy(true);
    setProblem("");
    setAsking("");
    work()
      .catch((error: unknown) => setProblem(error instanceof RequestFailed ? `${error.message} ${error.hint}` : String(error)))
      .finally(() => setBusy(false));
  };
  const { name, isAttended, waiting, errors, running, state } = summary;
  const canStop = isAttended && state !== "stopping";
  return (
    <div className="fleet-actions">
      {problem && (
        <span className="small bad" role="alert">
          {inOneLine(problem)}
        </span>
      )}
      {asking === "stop" && (
        <span className="fleet-confirm" role="group" aria-label={`Stop ${name}?`}>
          <button type="button" className="button" onClick={() => act(() => fleetApi.stop(name, false))}>
            {running ? `Stop after the ${running === 1 ? "case that runs" : `${running} cases that run`}` : "Stop"}
          </button>
          {running > 0 && (
            <button type="button" className="button danger" onClick={() => act(() => fleetApi.stop(name, true))}>
              Stop now
            </button>
          )}
          <button type="button" className="quiet" onClick={() => setAsking("")}>
            Keep it running
          </button>
        </span>
      )}
      {asking === "resume" && <ResumeForm summary={summary} onResume={(budget) => act(() => fleetApi.resume(name, budget))} onClose={() => setAsking("")} />}
      {!asking && canStop && (
        <button type="button" className="button" disabled={isBusy} onClick={() => setAsking("stop")}>
          <Icon name="stop" isSmall /> Stop…
        </button>
      )}
      {!asking && state === "stopping" && isAttended && running > 0 && (
        <button type="button" className="button" disabled={isBusy} onClick={() => act(() => fleetApi.stop(name, true))}>
          Stop now
        </button>
      )}
      {!asking && !isAttended && waiting > 0 && (
        <button type="button" className="button" disabled={isBusy} onClick={() => (summary.budgetUsd === null ? act(() => fleetApi.resume(name, null)) : setAsking("resume"))}>
          {isBusy ? "Starting…" : state === "planned" ? "Start" : summary.budgetUsd === null ? "Resume" : "Resume…"}
        </button>
      )}
      {!asking && !isAttended && errors > 0 && (
        <button type="button" className="button" disabled={isBusy} onClick={() => act(() => fleetApi.retry(name))}>
          Retry {errors === 1 ? "1 error" : `${errors} errors`}
        </button>
      )}
      <button type="button" className="quiet" onClick={() => act(() => saveFile(name, "report.html"))}>
        <Icon name="down" /> HTML
      </button>
      <button type="button" className="quiet" onClick={() => act(() => saveFile(name, "cases.csv"))}>
        <Icon name="down" /> CSV
      </button>
    </div>
  );
}

interface ResumeFormProps {
  readonly summary: FleetSummary;
  readonly onResume: (budgetUsd: number | null) => void;
  readonly onClose: () => void;
}

/** The budget is that of the whole fleet: what was spent counts. */
function ResumeForm({ summary, onResume, onClose }: ResumeFormProps) {
  const [text, setText] = useState(String(summary.budgetUsd ?? ""));
  const budget = Number(text);
  const isGood = Number.isFinite(budget) && budget > 0;
  return (
    <form
      className="fleet-confirm"
      onSubmit={(event) => {
        event.preventDefault();
        if (isGood) onResume(budget === summary.budgetUsd ? null : budget);
      }}
    >
      <label className="small">
        Budget $ <input className="field fleet-budget" inputMode="decimal" value={text} onChange={(event) => setText(event.target.value)} aria-invalid={!isGood} />
      </label>
      <button className="button primary" disabled={!isGood}>
        Resume
      </button>
      <button type="button" className="quiet" onClick={onClose}>
        Not now
      </button>
    </form>
  );
}
