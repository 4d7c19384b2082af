import type { HarnessRun, HarnessState, HarnessTask } from "../../client/src/index.js";
import { count, duration, cost } from "../amounts.js";
import { useInboxRow } from "../inbox/inbox_store.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { useConversation } from "./context.js";
import { ExportMenu } from "./export_menu.js";
import { Grants } from "./grants.js";
import { ModelCalls } from "./model_calls.js";
import { Settings } from "./settings.js";
import { Tags } from "./tags.js";
import { WorktreePanel } from "./worktree_panel.js";

/** Beside the conversation: what the agent has to do, and what each run used. */
export function SidePanel({ state, isReplay, onClose }: { state: HarnessState; isReplay: boolean; onClose: () => void }) {
  return (
    <aside className="panel" aria-label="Details">
      <button type="button" className="quiet round panel-close" onClick={onClose} aria-label="Close">
        <Icon name="close" />
      </button>
      {state.tasks.length > 0 && <Tasks tasks={state.tasks} />}
      <Usage state={state} />
      {!isReplay && state.capabilities.submit && <Settings state={state} />}
      {!isReplay && state.grants.length > 0 && <Grants state={state} />}
      {!isReplay && <WorktreePanel state={state} />}
      {!isReplay && <Tags />}
      {state.runs.length > 0 && <Runs runs={state.runs} />}
      <ModelCalls runs={state.runs.length} />
      <section>
        <h2>Document</h2>
        <ExportMenu sessionId={useConversation().sessionId} />
      </section>
    </aside>
  );
}

function Tasks({ tasks }: { tasks: readonly HarnessTask[] }) {
  const done = tasks.filter((task) => task.status === "completed").length;
  return (
    <section>
      <h2>
        Tasks{" "}
        <span className="faint">
          {done} of {tasks.length}
        </span>
      </h2>
      <ol className="tasks">
        {tasks.map((task, index) => (
          <li key={task.id || index} data-status={task.status}>
            <span className="task-mark" role="img" aria-label={task.status.replace("_", " ")}>
              {task.status === "completed" && <Icon name="check" />}
            </span>
            <span>{inOneLine(task.status === "in_progress" ? task.activeForm || task.text : task.text)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Usage({ state }: { state: HarnessState }) {
  const { usage } = state;
  const rows: readonly (readonly [string, number | null])[] = [
    ["Input", usage.input],
    ["Cache read", usage.cacheRead],
    ["Cache write", usage.cacheWrite],
    ["Output", usage.output],
    ["Reasoning", usage.reasoning],
  ];
  const known = rows.filter((row): row is readonly [string, number] => row[1] !== null);
  if (!known.length && usage.costUsd === null) return null;
  return (
    <section>
      <h2>Usage</h2>
      <dl className="amounts">
        {known.map(([name, amount]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{count(amount)}</dd>
          </div>
        ))}
        {usage.costUsd !== null && (
          <div className="total">
            <dt>Cost</dt>
            <dd>{cost(usage.costUsd)}</dd>
          </div>
        )}
      </dl>
    </section>
  );
}

const RUNS_SHOWN_MAX = 100;

function Runs({ runs }: { runs: readonly HarnessRun[] }) {
  const row = useInboxRow(useConversation().sessionId);
  const titleOf = ({ agent }: HarnessRun) => (agent === row?.agentName ? row.agent : agent === "native" ? "Harness agent" : agent);
  return (
    <section>
      <h2>
        Runs <span className="faint">{runs.length}</span>
      </h2>
      <ol className="runs">
        {runs.slice(-RUNS_SHOWN_MAX).map((run) => (
          <li key={run.id} data-nested={!!run.parentCallId || undefined}>
            <span className="mark" data-mark={markOf(run.status)} role="img" aria-label={run.status} />
            <span className="clipped" title={run.model}>
              {inOneLine(run.name || titleOf(run) || "agent")}
            </span>
            <span className="faint">{run.durationMs === null ? "" : duration(run.durationMs)}</span>
            <span className="faint">{costOf(run)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function markOf(status: string): string {
  if (status === "running" || status === "completed") return status;
  if (status === "interrupted") return "idle";
  return status === "suspended" ? "waiting" : "error";
}

function costOf({ usage }: HarnessRun): string {
  if (usage.costUsd !== null) return cost(usage.costUsd);
  const used = (usage.input ?? 0) + (usage.output ?? 0) + (usage.cacheRead ?? 0) + (usage.cacheWrite ?? 0);
  return used ? count(used) : "";
}
