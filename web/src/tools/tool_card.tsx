/** One tool call: a line that says what it is, and what it did behind it. */

import { memo, useMemo, useState, type ReactNode } from "react";
import type { HarnessOperation, HarnessRelay, HarnessToolCall } from "../../client/src/index.js";
import { duration } from "../amounts.js";
import { useConversation } from "../conversation/context.js";
import { NestedMessages } from "../conversation/message.js";
import { sessionAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import type { DiffLine } from "../text/line_diff.js";
import { changeOf } from "./change.js";
import { diffCounts, DiffView } from "./diff_view.js";
import { Output } from "./output.js";
import { commandIn } from "../relays/payload.js";
import { askedSummary, kindOf, summaryOf } from "./summary.js";

const NO_LINES: readonly DiffLine[] = [];

export const ToolCard = memo(function ToolCard({ call }: { call: HarnessToolCall }) {
  const { relays } = useConversation();
  const relay = call.relayId ? relays.get(call.relayId) : undefined;
  const kind = kindOf(call);
  const change = useMemo(() => (kind === "write" ? changeOf(call) : NO_LINES), [call, kind]);
  const [choice, setChoice] = useState<boolean | null>(null);
  const summary = relay && relay.kind !== "permission" ? askedSummary(relay) : summaryOf(call);
  const isEmpty = !hasBody(call, kind, change);
  const isOpen = !isEmpty && (choice ?? (relay?.status !== "denied" && opensByItself(call, kind)));
  return (
    <section
      className="tool"
      data-kind={kind}
      data-status={relay?.status === "pending" ? "waiting" : call.status}
      aria-label={`${summary.verb} ${summary.subject}`.trim()}
    >
      <button type="button" className="tool-head" aria-expanded={isOpen} disabled={isEmpty} onClick={() => setChoice(!isOpen)}>
        <span className="tool-icon">
          <Icon name={summary.icon} />
        </span>
        <span className="tool-verb">{summary.verb}</span>
        <span className={summary.isCode ? "tool-subject fixed" : "tool-subject"}>{firstLine(summary.subject)}</span>
        <Facts call={call} change={change} relay={relay} />
      </button>
      {isOpen && (
        <div className="tool-body">
          <Body call={call} kind={kind} change={change} />
        </div>
      )}
    </section>
  );
});

function hasBody(call: HarnessToolCall, kind: string, change: readonly DiffLine[]): boolean {
  if (call.output || call.messages?.length || call.logId || change.length) return true;
  if (kind === "command") return !isInHead(commandsOf(call));
  return (kind === "other" || kind === "fetch") && !!argumentsText(call);
}

/** What somebody wants to see without asking: changes, what goes wrong, a sub-agent at work. */
function opensByItself(call: HarnessToolCall, kind: string): boolean {
  if (kind === "write") return true;
  if (kind === "spawn") return call.status === "running";
  if (call.status === "error") return kind === "command" || kind === "other";
  return kind === "command" && call.status === "running";
}

function Facts({ call, change, relay }: { call: HarnessToolCall; change: readonly DiffLine[]; relay: HarnessRelay | undefined }) {
  const { added, removed } = useMemo(() => diffCounts(change), [change]);
  const exitCode = call.exitCode ?? null;
  return (
    <span className="tool-facts">
      {added > 0 && <span className="good">+{added}</span>}
      {removed > 0 && <span className="bad">−{removed}</span>}
      {relay && relay.status !== "approved" && <RelayMark relay={relay} />}
      {exitCode !== null && exitCode !== 0 && <span className="bad">exit {exitCode}</span>}
      {call.status === "error" && !exitCode && relay?.status !== "denied" && <span className="bad">failed</span>}
      {call.durationMs != null && call.durationMs >= 1_000 && <span className="faint">{duration(call.durationMs)}</span>}
      {call.status === "running" && relay?.status !== "pending" && <span className="spinner" role="img" aria-label="running" />}
      {call.status === "complete" && exitCode === 0 && (
        <span className="good" title="exit 0">
          <Icon name="check" />
          <span className="unseen">exit 0</span>
        </span>
      )}
    </span>
  );
}

function RelayMark({ relay }: { relay: HarnessRelay }) {
  if (relay.status === "pending") return <span className="waits">waits for you</span>;
  const reason = relay.reason ? `: ${relay.reason}` : "";
  return <span className="bad">{relay.by === "timeout" ? "nobody answered" : `denied${reason}`}</span>;
}

function Body({ call, kind, change }: { call: HarnessToolCall; kind: string; change: readonly DiffLine[] }): ReactNode {
  return (
    <>
      {kind === "command" && <Commands call={call} />}
      {kind !== "command" && (call.operations?.length ?? 0) > 1 && <OtherOperations call={call} />}
      {change.length > 0 && <DiffView lines={change} />}
      {kind === "spawn" && <SubAgent call={call} />}
      {(kind === "other" || kind === "fetch") && <Arguments call={call} />}
      {!isToldOtherwise(call, kind, change) && <Output call={call} />}
    </>
  );
}

/** “Written” below the change, or the last words of a sub-agent again, would tell nothing. */
function isToldOtherwise(call: HarnessToolCall, kind: string, change: readonly DiffLine[]): boolean {
  if (kind === "spawn") return !!call.messages?.length;
  return kind === "tasks" || (change.length > 0 && call.status === "complete");
}

const COMMAND_IN_HEAD_MAX = 84;

function commandsOf(call: HarnessToolCall): readonly Extract<HarnessOperation, { kind: "command" }>[] {
  const known = (call.operations ?? []).flatMap((operation) => (operation.kind === "command" ? [operation] : []));
  return known.length ? known : [{ kind: "command", command: commandIn(call.input ?? null) }];
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
    <pre key={index} className={isRepeated ? "command repeated" : "command"} tabIndex={0}>
      {operation.command}
      {commands.length > 1 && operation.exit_code ? <span className="bad"> exit {operation.exit_code}</span> : null}
    </pre>
  ));
}

function OtherOperations({ call }: { call: HarnessToolCall }) {
  return (
    <ul className="operations">
      {(call.operations ?? []).map((operation, index) => {
        const { verb, subject } = summaryOf({ ...call, operations: [operation] });
        return (
          <li key={index}>
            {verb} <span className="fixed">{subject}</span>
          </li>
        );
      })}
    </ul>
  );
}

function SubAgent({ call }: { call: HarnessToolCall }) {
  return (
    <>
      {call.logId && (
        <a className="small" href={sessionAddress(call.logId)}>
          Open its own conversation
        </a>
      )}
      {call.messages?.length ? <NestedMessages messages={call.messages} /> : null}
    </>
  );
}

function argumentsText(call: HarnessToolCall): string {
  if (call.inputText) return call.inputText;
  const text = call.input === null || call.input === undefined ? "" : JSON.stringify(call.input, null, 2);
  return text === "{}" ? "" : text;
}

function Arguments({ call }: { call: HarnessToolCall }) {
  const text = argumentsText(call);
  if (!text) return null;
  return (
    <pre className="arguments" tabIndex={0} aria-label="Arguments">
      {text}
    </pre>
  );
}

function firstLine(text: string): string {
  const end = text.indexOf("\n");
  return end < 0 ? text : `${text.slice(0, end)} …`;
}
