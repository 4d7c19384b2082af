/** A sub-agent: its task, what it does now, and the link to its messages. */

import { memo } from "react";
import type { HarnessMessage, HarnessRun, HarnessToolCall } from "../../client/src/index.js";
import { count, duration } from "../amounts.js";
import { useConversation } from "../conversation/context.js";
import { useOpenState } from "../conversation/open_state.js";
import { runAddress } from "../conversation/shown_run.js";
import { sessionAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { Markdown } from "../text/markdown.js";
import { Revealed } from "../text/revealed.js";
import { inOneLine, revealed } from "../text/unseen.js";
import { summaryOf } from "./summary.js";

export const SubAgentCard = memo(function SubAgentCard({ call }: { call: HarnessToolCall }) {
  const { sessionId, runs } = useConversation();
  const run = [...runs.values()].find(({ parentCallId }) => parentCallId === call.id);
  const [isOpen, setOpen] = useOpenState(`agent ${call.id}`, false);
  const { verb, subject } = summaryOf(call);
  const last = lastCall(call.messages ?? []);
  const answer = call.messages?.findLast(({ role }) => role === "assistant")?.content.trim() || call.output?.trim() || "";
  const isRunning = call.status === "running";
  const address = call.logId ? sessionAddress(call.logId) : run ? runAddress(sessionId, run.id) : "";
  return (
    <div role="group" className="tool" data-kind="spawn" data-status={call.status} aria-label={inOneLine(`Sub-agent ${verb} ${subject}`.trim())}>
      <button type="button" className="tool-head" aria-expanded={isOpen} disabled={!answer} onClick={() => setOpen(!isOpen)}>
        <span className="tool-icon">
          <Icon name="spawn" />
        </span>
        <span className="tool-verb">{revealed(run?.name || verb)}</span>
        <span className="tool-subject">
          <Revealed text={inOneLine(subject)} />
        </span>
        <span className="tool-facts">
          <span className="faint">{factsOf(run)}</span>
          {call.status === "error" && <span className="bad">failed</span>}
          {isRunning && <span className="mark" data-mark="running" role="img" aria-label="running" />}
        </span>
      </button>
      {(last || address) && (
        <div className="agent-last">
          {last && <LastCall call={last} />}
          {address && (
            <a className="quiet small" href={address}>
              Open as conversation
            </a>
          )}
        </div>
      )}
      {isOpen && answer && (
        <div className="tool-body">
          <Markdown text={answer} isGrowing={isRunning} />
        </div>
      )}
    </div>
  );
});

function LastCall({ call }: { call: HarnessToolCall }) {
  const { cwd } = useConversation();
  const { icon, verb, subject, isCode } = summaryOf(call, cwd);
  return (
    <span className="agent-call">
      <Icon name={icon} />
      <span>{revealed(verb)}</span>
      <span className={isCode ? "fixed clipped" : "clipped"}>
        <Revealed text={inOneLine(subject, "code")} />
      </span>
    </span>
  );
}

function lastCall(messages: readonly HarnessMessage[]): HarnessToolCall | undefined {
  return messages.findLast(({ toolCalls }) => toolCalls?.length)?.toolCalls?.at(-1);
}

function factsOf(run: HarnessRun | undefined): string {
  if (!run) return "";
  const { input, output, cacheRead, cacheWrite } = run.usage;
  const used = (input ?? 0) + (output ?? 0) + (cacheRead ?? 0) + (cacheWrite ?? 0);
  return [used ? count(used) : "", run.durationMs === null ? "" : duration(run.durationMs)].filter(Boolean).join(" · ");
}
