/** A tool call in one line: a sign, a verb and what it is about, by the operation and not by the tool's name. */

import type { HarnessOperation, HarnessRelay, HarnessToolCall } from "../../client/src/index.js";
import { commandIn, payloadText } from "../relays/payload.js";
import type { IconName } from "../shell/icon.js";

export interface Summary {
  readonly icon: IconName;
  readonly verb: string;
  readonly subject: string;
  /** The subject is code or a path, to be set in the fixed-width type. */
  readonly isCode: boolean;
}

const CHANGES = { create: "Create", update: "Edit", delete: "Delete", move: "Move" } as const;

type Summaries = {
  readonly [Kind in HarnessOperation["kind"]]: (operation: Extract<HarnessOperation, { kind: Kind }>) => Summary;
};

const SUMMARIES: Summaries = {
  command: ({ command }) => ({ icon: "command", verb: "Run", subject: command, isCode: true }),
  read: (operation) => ({ icon: "read", verb: "Read", subject: operation.path + lines(operation), isCode: true }),
  write: ({ path, change }) => ({ icon: "write", verb: (change && CHANGES[change]) || "Write", subject: path, isCode: true }),
  search: ({ query, path }) => ({ icon: "search", verb: "Search", subject: path ? `${query}  in ${path}` : query, isCode: true }),
  list: ({ path }) => ({ icon: "list", verb: "List", subject: path ?? "", isCode: true }),
  skill: ({ name, path }) => ({ icon: "skill", verb: "Skill", subject: name || path, isCode: false }),
  fetch: ({ url, query }) => ({ icon: "fetch", verb: url ? "Fetch" : "Web search", subject: url || query || "", isCode: !!url }),
  spawn: ({ name, task }) => ({ icon: "spawn", verb: name || "Sub-agent", subject: task ?? "", isCode: false }),
  tasks: () => ({ icon: "list", verb: "Task list", subject: "", isCode: false }),
};

export function summaryOf(call: HarnessToolCall): Summary {
  const operation = call.operations?.[0];
  const describe = operation && (SUMMARIES[operation.kind] as ((operation: HarnessOperation) => Summary) | undefined);
  if (describe) return describe(operation);
  const command = commandIn(call.input ?? null); // nobody has said yet what the call means
  if (command) return SUMMARIES.command({ kind: "command", command });
  return { icon: "tool", verb: call.name || "tool", subject: argumentsInShort(call), isCode: true };
}

const ASKED = { permission: "Permission", question: "Question", plan: "Plan", tool: "Waiting tool" } as const;

/** A call that only asks somebody is about its question. */
export function askedSummary(relay: HarnessRelay): Summary {
  const subject = relay.question || payloadText(relay, "question") || payloadText(relay, "title") || relay.toolName;
  return { icon: "ask", verb: ASKED[relay.kind] ?? "Question", subject, isCode: false };
}

export function kindOf(call: HarnessToolCall): HarnessOperation["kind"] | "other" {
  return call.operations?.[0]?.kind ?? (commandIn(call.input ?? null) ? "command" : "other");
}

function lines({ start_line: start, end_line: end }: { readonly start_line?: number; readonly end_line?: number }): string {
  if (!start) return "";
  return end && end !== start ? `:${start}–${end}` : `:${start}`;
}

const SHORT_MAX = 160;

function argumentsInShort(call: HarnessToolCall): string {
  if (call.inputText) return call.inputText.slice(0, SHORT_MAX);
  const input = call.input ?? null;
  if (input === null) return "";
  if (typeof input !== "object" || Array.isArray(input)) return JSON.stringify(input).slice(0, SHORT_MAX);
  const pairs = Object.entries(input).map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return pairs.join(", ").slice(0, SHORT_MAX);
}
