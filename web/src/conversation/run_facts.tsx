import type { HarnessMessage } from "../../client/src/index.js";
import { duration, cost, shortTime, tokens } from "../amounts.js";
import { CopyButton } from "../shell/copy_button.js";
import { useConversation } from "./context.js";
import { saidText } from "./item_text.js";

const OUTCOMES: { readonly [status: string]: string } = {
  failed: "Failed",
  timed_out: "Failed: timed out",
  stalled: "Failed: no output for too long",
  interrupted: "Stopped",
  limit_exceeded: "Failed: reached its limit",
  agent_not_found: "Failed: agent not found",
  spawn_failed: "Failed: could not start",
  suspended: "Waits for an answer",
};

const HARMLESS = new Set(["suspended", "interrupted"]);

/** Below the last words of a run: how it ended, how long it took, what it used, and its words to copy. */
export function RunFacts({ message }: { message: HarnessMessage }) {
  const { runs, messagesOf } = useConversation();
  const run = message.runId ? runs.get(message.runId) : undefined;
  if (!run || message.status === "streaming" || message.status === "pending") return null;
  const facts = [
    OUTCOMES[run.status] ?? "",
    run.durationMs === null ? "" : shortTime(run.startedMs + run.durationMs),
    run.durationMs === null ? "" : duration(run.durationMs),
    tokens(run.usage),
    run.usage.costUsd === null ? "" : cost(run.usage.costUsd),
  ].filter(Boolean);
  if (!facts.length) return null;
  return (
    <footer className="run-facts faint" data-failed={(run.status in OUTCOMES && !HARMLESS.has(run.status)) || undefined}>
      {facts.join(" · ")}
      <CopyButton label="Copy the answer" text={() => saidText(messagesOf(run.id))} />
    </footer>
  );
}
