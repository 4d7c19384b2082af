/** A conversation in one or two lines: what it does now, or how it ended. */

import { memo, useState, type FormEvent } from "react";
import { count, moment, roughly } from "../amounts.js";
import { sessionAddress } from "../route.js";
import { pageSocket } from "../socket/socket.js";
import { Icon, type IconName } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { AgentBadge } from "./agent_badge.js";
import type { Passage } from "../api.js";
import { ContextUsed, Cost, Delta, HistoryMark, Refused, titleOf, whereOf } from "./facts.js";
import { hasFailed, works, type InboxRow, type RowChild, type RowOperation } from "./row.js";
import { StateSign, stateWords } from "./row_state.js";

const ICONS: { readonly [kind: string]: IconName } = {
  command: "command",
  read: "read",
  write: "write",
  search: "search",
  list: "list",
  skill: "skill",
  fetch: "fetch",
  spawn: "spawn",
  tasks: "list",
};

/** Asked of a row with a key: a message to the run, or its end. */
export type RowAction = "" | "steer" | "stop";

interface RowItemProps {
  readonly row: InboxRow;
  readonly isAt: boolean;
  readonly now_ms: number;
  readonly action?: RowAction;
  readonly onActionDone?: () => void;
}

/** The verb, and what it is done to. */
function Operation({ operation, isObjectOnly }: { readonly operation: RowOperation; readonly isObjectOnly: boolean }) {
  const [, verb = "", object = ""] = /^(\S+)\s*([^]*)$/.exec(operation.text) ?? [];
  const icon = Object.hasOwn(ICONS, operation.kind) ? ICONS[operation.kind] : undefined;
  if (operation.kind === "text") return <span className="clip">{inOneLine(operation.text)}</span>;
  return (
    <>
      {icon && !isObjectOnly && <Icon name={icon} isSmall />}
      {!isObjectOnly && <span>{inOneLine(verb)}</span>}
      {object && <code className="clip">{inOneLine(object, "code")}</code>}
    </>
  );
}

export const RunningItem = memo(function RunningItem({ row, isAt, now_ms, action = "", onActionDone }: RowItemProps) {
  const isBackground = row.state === "background";
  return (
    <>
      <a className="item" href={sessionAddress(row.id)} data-stop={row.id} tabIndex={isAt ? 0 : -1}>
        <StateSign state={row.state} />
        <AgentBadge agentName={row.agentName} title={row.agent} />
        <span className="row">
          <span className="title clip">{titleOf(row)}</span>
          <span className="small faint clip item-where">{whereOf(row)}</span>
          <HistoryMark row={row} />
        </span>
        <span className="facts">
          <Refused row={row} />
          {row.queued > 0 && <span className="fact-queued">{row.queued} queued</span>}
          {row.changes && <Delta {...row.changes} />}
          <Cost row={row} />
          <ContextUsed row={row} />
          <span className="num fact-time">{roughly(now_ms - row.startedMs)}</span>
        </span>
        <span className="line">
          <span className="narrow-only">{inOneLine(row.project.name, "code")}</span>
          {isBackground && <span className="line-note">Waits for a background job</span>}
          {row.lastOperation ? <Operation operation={row.lastOperation} isObjectOnly={isBackground} /> : !isBackground && <span>{nowWords(row)}</span>}
          {row.children.length > 0 && (
            <span className="push narrow-only">{row.children.length === 1 ? "1 sub-agent" : `${row.children.length} sub-agents`}</span>
          )}
        </span>
      </a>
      {row.children.slice(0, CHILDREN_SHOWN).map((child) => (
        <Child key={child.runId} child={child} now_ms={now_ms} />
      ))}
      {row.children.length > CHILDREN_SHOWN && <div className="sub more-children">{row.children.length - CHILDREN_SHOWN} more sub-agents</div>}
      {action === "steer" && <SteerForm row={row} onDone={onActionDone!} />}
      {action === "stop" && <StopQuestion row={row} onDone={onActionDone!} />}
    </>
  );
});

/** Of a run that has done nothing yet, or that is only watched. */
function nowWords(row: InboxRow): string {
  if (!row.history) return "Starting";
  return row.state === "asks" ? "Waits for an answer in its own screen" : "Works in its own screen";
}

const CHILDREN_SHOWN = 4;

function Child({ child, now_ms }: { readonly child: RowChild; readonly now_ms: number }) {
  const facts = [child.tokens ? count(child.tokens) : "", child.startedMs ? roughly(now_ms - child.startedMs) : ""].filter(Boolean).join(" · ");
  return (
    <div className="sub">
      <Icon name="spawn" isSmall />
      <span className="clip">
        <b>{inOneLine(child.name) || "sub-agent"}</b> {child.lastOperation && <code>{inOneLine(child.lastOperation.text, "code")}</code>}
      </span>
      <span className="facts num">{facts}</span>
    </div>
  );
}

interface EarlierItemProps extends RowItemProps {
  /** Where a search has found it. */
  readonly passage?: Passage | null;
}

export const EarlierItem = memo(function EarlierItem({ row, isAt, now_ms, passage = null }: EarlierItemProps) {
  const isBad = row.state === "failed" || (row.state === "interrupted" && hasFailed(row));
  return (
    <a className={row.isUnseen ? "item tight new" : "item tight"} href={sessionAddress(row.id)} data-stop={row.id} tabIndex={isAt ? 0 : -1}>
      <StateSign state={row.state} />
      <AgentBadge agentName={row.agentName} title={row.agent} />
      <span className="row">
        <span className="title clip">{titleOf(row)}</span>
        <span className={isBad ? "small bad clip item-state" : "small faint clip item-state"} title={isBad ? inOneLine(stateWords(row)) : undefined}>
          {inOneLine(stateWords(row))}
          {row.isUnseen && <span className="unseen">, not opened yet</span>}
        </span>
        <HistoryMark row={row} />
      </span>
      <span className="facts">
        <Refused row={row} />
        {row.changes && <Delta {...row.changes} />}
        <Cost row={row} />
        <span className="num fact-moment">{moment(passage?.atMs ?? row.updatedMs, now_ms)}</span>
      </span>
      {passage && (passage.text || passage.how) && (
        <span className="line passage">
          {passage.how && <b>{[passage.certainty, passage.how].filter(Boolean).join(" ")}</b>}
          <span className="clip">{inOneLine(passage.text)}</span>
        </span>
      )}
    </a>
  );
});

function SteerForm({ row, onDone }: { readonly row: InboxRow; readonly onDone: () => void }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!text.trim()) return;
    const isSent = pageSocket().send({
      type: "commands",
      session: row.id,
      commands: [row.can.steer ? { type: "steer", message: text.trim() } : { type: "submit", prompt: text.trim() }],
    });
    if (isSent) onDone();
    else setProblem("Not sent: there is no connection.");
  };
  return (
    <form className="row-action" onSubmit={submit} onKeyDown={(event) => event.key === "Escape" && (event.preventDefault(), event.stopPropagation(), onDone())}>
      <input
        className="field"
        autoFocus
        value={text}
        onChange={(event) => setText(event.target.value)}
        aria-label={`Message to ${titleOf(row)}`}
        placeholder={row.can.steer ? "Steer: the agent reads this while it works" : "Queue: sent when this run ends"}
      />
      <button type="submit" className="button" disabled={!text.trim()}>
        {row.can.steer ? "Steer" : "Queue"}
      </button>
      <button type="button" className="button" onClick={onDone}>
        Back
      </button>
      {problem && (
        <span className="bad small" role="alert">
          {problem}
        </span>
      )}
    </form>
  );
}

function StopQuestion({ row, onDone }: { readonly row: InboxRow; readonly onDone: () => void }) {
  const stop = (queue: "keep" | "clear") => {
    pageSocket().send({ type: "commands", session: row.id, commands: [{ type: "cancel", ...(queue === "clear" && { queue }) }] });
    onDone();
  };
  const queued = row.queued;
  return (
    <div
      className="row-action stop-question"
      role="group"
      aria-label={`Stop ${titleOf(row)}?`}
      onKeyDown={(event) => event.key === "Escape" && (event.preventDefault(), event.stopPropagation(), onDone())}
    >
      <p>
        <b>Stop “{titleOf(row)}”?</b>{" "}
        {queued > 0 && <span className="small soft">{queued === 1 ? "One queued message waits behind it." : `${queued} queued messages wait behind it.`}</span>}
      </p>
      <button type="button" className="button small stop" autoFocus onClick={() => stop("keep")}>
        {queued ? "Stop, keep the queue" : "Stop"}
      </button>
      {queued > 0 && (
        <button type="button" className="button small stop" onClick={() => stop("clear")}>
          Stop and clear
        </button>
      )}
      <button type="button" className="button small" onClick={onDone}>
        Let it run
      </button>
    </div>
  );
}

export function canAct(row: InboxRow | undefined, action: RowAction): boolean {
  if (!row) return false;
  return action === "stop" ? row.can.cancel : works(row) && (row.can.steer || row.can.submit);
}
