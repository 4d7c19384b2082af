import type { HarnessMessage } from "../../client/src/index.js";
import { duration, money, tokens } from "../amounts.js";
import { useConversation } from "./context.js";

const OUTCOMES: { readonly [status: string]: string } = {
  failed: "failed",
  timed_out: "took too long",
  stalled: "fell silent",
  interrupted: "stopped",
  limit_exceeded: "reached its limit",
  agent_not_found: "agent not found",
  spawn_failed: "could not start",
  suspended: "waits for an answer",
};

const HARMLESS = new Set(["suspended", "interrupted"]);

/** Below the last words of a run: how it ended, how long it took, what it used. */
export function RunFacts({ message }: { message: HarnessMessage }) {
  const { runs, lastMessages } = useConversation();
  const run = message.runId ? runs.get(message.runId) : undefined;
  if (!run || lastMessages.get(run.id) !== message.id || message.status === "streaming" || message.status === "pending") return null;
  const facts = [
    OUTCOMES[run.status] ?? "",
    run.durationMs === null ? "" : duration(run.durationMs),
    tokens(run.usage),
    run.usage.costUsd === null ? "" : money(run.usage.costUsd),
  ].filter(Boolean);
  if (!facts.length) return null;
  return (
    <footer className="run-facts faint" data-failed={(run.status in OUTCOMES && !HARMLESS.has(run.status)) || undefined}>
      {facts.join(" · ")}
    </footer>
  );
}
