/** One tool call: a line with what it is, and its details. */

import { memo, useMemo, type ReactNode } from "react";
import type { HarnessOperation, HarnessRelay, HarnessToolCall } from "../../client/src/index.js";
import { duration } from "../amounts.js";
import { useConversation } from "../conversation/context.js";
import { useOpenState } from "../conversation/open_state.js";
import { fileAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { TallBox } from "../shell/tall_box.js";
import { patchLines, type DiffLine } from "../text/line_diff.js";
import { Revealed } from "../text/revealed.js";
import { inOneLine, revealed } from "../text/unseen.js";
import { changeOf } from "./change.js";
import { diffCounts, DiffView } from "./diff_view.js";
import { Output } from "./output.js";
import { SubAgentCard } from "./sub_agent.js";
import { ToolFiles } from "./tool_files.js";
import { askedSummary, fileOf, inputOf, kindOf, operationsOf, progressOf, summaryOf, type Progress } from "./summary.js";

const NO_LINES: readonly DiffLine[] = [];

const STATUSES: { readonly [Name in Progress]: string } = {
  waiting: "waiting",
  running: "running",
  complete: "complete",
  failed: "error",
  denied: "error",
  "not run": "skipped",
};

export const ToolCard = memo(function ToolCard({ call }: { call: HarnessToolCall }) {
  return kindOf(call) === "spawn" ? <SubAgentCard call={call} /> : <OperationCard call={call} />;
});

function OperationCard({ call }: { call: HarnessToolCall }) {
  const { relays, cwd } = useConversation();
  const relay = call.relayId ? relays.get(call.relayId) : undefined;
  const kind = kindOf(call);
  const change = useMemo(() => (kind === "write" ? shownChange(call, relay) : NO_LINES), [call, kind, relay]);
  const [choice, setChoice] = useOpenState<boolean | null>(`tool ${call.id}`, null);
  const summary = relay && relay.kind !== "permission" ? askedSummary(relay) : summaryOf(call, cwd);
  const progress = progressOf(call, relay);
  const isEmpty = !hasBody(call, kind, change);
  const isOpen = !isEmpty && (choice ?? opensByItself(call, kind, progress));
  return (
    <div
      role="group"
      className="tool"
      data-kind={kind}
      data-status={progress === "waiting" && relay?.status !== "pending" ? "queued" : STATUSES[progress]}
      aria-label={inOneLine(`${summary.verb} ${summary.subject}`.trim(), "code")}
    >
      <button type="button" className="tool-head" aria-expanded={isOpen} disabled={isEmpty} onClick={() => setChoice(!isOpen)}>
        <span className="tool-icon">
          <Icon name={summary.icon} />
        </span>
        <span className="tool-verb">{revealed(summary.verb)}</span>
        <span className={summary.isCode ? "tool-subject fixed" : "tool-subject"}>
          <Revealed text={firstLine(summary.subject)} />
        </span>
        <Facts call={call} change={change} relay={relay} progress={progress} />
      </button>
      {progress !== "not run" && <OpenFile operation={operationsOf(call)[0]} />}
      {isOpen && (
        <div className="tool-body">
          <Body call={call} kind={kind} change={change} />
        </div>
      )}
    </div>
  );
}

/** The file as it is now, at the line that the call is about. */
function OpenFile({ operation }: { operation: HarnessOperation | undefined }) {
  const { sessionId, cwd } = useConversation();
  const file = fileOf(operation, cwd);
  if (!file) return null;
  return (
    <a className="quiet small tool-open" href={fileAddress(sessionId, file.path, file.line)} aria-label={`Open ${inOneLine(file.path, "code")}`} title="Open file">
      <Icon name="open" />
    </a>
  );
}

/** Where a person was asked: the change that was shown then, with the lines that it removes. */
function shownChange(call: HarnessToolCall, relay: HarnessRelay | undefined): readonly DiffLine[] {
  const asked = relay?.callId === call.id ? relay.preview : null;
  return asked?.length ? asked.flatMap(({ diff }) => patchLines(diff)) : changeOf(call);
}

function hasBody(call: HarnessToolCall, kind: string, change: readonly DiffLine[]): boolean {
  if (call.output || call.files?.length || change.length) return true;
  if (kind === "command") return !isInHead(commandsOf(call));
  return (kind === "other" || kind === "fetch") && !!argumentsText(call);
}

/** What a person wants to see without asking: pictures, what goes wrong, what runs. Changes are in a panel of their own. */
function opensByItself(call: HarnessToolCall, kind: string, progress: Progress): boolean {
  if (progress === "denied" || progress === "not run" || progress === "waiting") return false;
  if (call.files?.length) return true;
  if (call.status === "error") return kind === "command" || kind === "other";
  return kind === "command" && call.status === "running";
}

interface FactsProps {
  readonly call: HarnessToolCall;
  readonly change: readonly DiffLine[];
  readonly relay: HarnessRelay | undefined;
  readonly progress: Progress;
}

function Facts({ call, change, relay, progress }: FactsProps) {
  const { added, removed } = useMemo(() => diffCounts(change), [change]);
  const exitCode = call.exitCode ?? null;
  return (
    <span className="tool-facts">
      {added > 0 && progress !== "failed" && <span className="good">+{added}</span>}
      {removed > 0 && progress !== "failed" && <span className="bad">−{removed}</span>}
      {relay?.status === "pending" && progress !== "not run" && <span className="waits">needs you</span>}
      {relay && progress === "denied" && <Denied relay={relay} />}
      {progress === "waiting" && relay?.status !== "pending" && <span className="faint">will run</span>}
      {progress === "not run" && <span className="faint">not run</span>}
      {exitCode !== null && exitCode !== 0 && <span className="bad">exit {exitCode}</span>}
      {progress === "failed" && !exitCode && <span className="bad">failed</span>}
      {call.durationMs != null && call.durationMs >= 1_000 && <span className="faint">{duration(call.durationMs)}</span>}
      {progress === "running" && <span className="mark" data-mark="running" role="img" aria-label="running" />}
      {progress === "complete" && (exitCode === 0 || change.length > 0) && (
        <span className="good" title={exitCode === 0 ? "exit 0" : "done"}>
          <Icon name="check" />
          <span className="unseen">{exitCode === 0 ? "exit 0" : "done"}</span>
        </span>
      )}
    </span>
  );
}

function Denied({ relay }: { relay: HarnessRelay }) {
  const reason = relay.reason ? `: ${inOneLine(relay.reason)}` : "";
  return <span className="bad">{relay.by === "timeout" ? "not answered in time" : `denied${reason}`}</span>;
}

function Body({ call, kind, change }: { call: HarnessToolCall; kind: string; change: readonly DiffLine[] }): ReactNode {
  return (
    <>
      {kind === "command" && <Commands call={call} />}
      {kind !== "command" && operationsOf(call).length > 1 && <OtherOperations call={call} />}
      {change.length > 0 && <DiffView lines={change} />}
      {(kind === "other" || kind === "fetch") && <Arguments call={call} />}
      {!isToldOtherwise(call, kind, change) && <Output call={call} />}
      {call.files?.length ? <ToolFiles call={call} files={call.files} /> : null}
    </>
  );
}

/** “Written” below the change would say nothing. */
function isToldOtherwise(call: HarnessToolCall, kind: string, change: readonly DiffLine[]): boolean {
  return kind === "tasks" || (change.length > 0 && call.status === "complete");
}

const COMMAND_IN_HEAD_MAX = 84;

function commandsOf(call: HarnessToolCall): readonly Extract<HarnessOperation, { kind: "command" }>[] {
  return operationsOf(call).flatMap((operation) => (operation.kind === "command" ? [operation] : []));
}

/** One that can be read in the head of the card, where the screen is wide enough. */
function isInHead(commands: readonly { readonly command: string }[]): boolean {
  const [only] = commands;
  return commands.length === 1 && !!only && !only.command.includes("\n") && only.command.length < COMMAND_IN_HEAD_MAX;
}

function Commands({ call }: { call: HarnessToolCall }) {
  const commands = commandsOf(call);
  const isRepeated = isInHead(commands);
  return commands.map((operation, index) => (
    <div key={index} className={isRepeated ? "repeated" : undefined}>
      <TallBox label="Command">
        <pre className="command">
          <Revealed text={operation.command} />
          {commands.length > 1 && operation.exit_code ? <span className="bad"> exit {operation.exit_code}</span> : null}
        </pre>
      </TallBox>
    </div>
  ));
}

function OtherOperations({ call }: { call: HarnessToolCall }) {
  const { cwd } = useConversation();
  return (
    <ul className="operations">
      {operationsOf(call).map((operation, index) => {
        const { verb, subject } = summaryOf({ ...call, operations: [operation] }, cwd);
        return (
          <li key={index}>
            {verb}{" "}
            <span className="fixed">
              <Revealed text={subject} />
            </span>
            <OpenFile operation={operation} />
          </li>
        );
      })}
    </ul>
  );
}

function argumentsText(call: HarnessToolCall): string {
  const input = inputOf(call);
  if (input === null) return call.inputText ?? "";
  const text = JSON.stringify(input, null, 2);
  return text === "{}" ? "" : text;
}

function Arguments({ call }: { call: HarnessToolCall }) {
  const text = argumentsText(call);
  if (!text) return null;
  return (
    <TallBox label="Arguments">
      <pre className="arguments">
        <Revealed text={text} />
      </pre>
    </TallBox>
  );
}

function firstLine(text: string): string {
  const end = text.indexOf("\n");
  return end < 0 ? text : `${text.slice(0, end)} …`;
}
