/** A tool call in one line: a sign, a verb and what it is about, by the operation and not by the tool's name. */

import type { HarnessOperation, HarnessRelay, HarnessToolCall, JSONValue } from "../../client/src/index.js";
import { commandIn, payloadText, textIn } from "../relays/payload.js";
import type { IconName } from "../shell/icon.js";
import { pathInside } from "../files/editor_address.js";
import { partialInput } from "./partial_input.js";

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

/** `cwd`: paths below it are shown relative to it. */
export function summaryOf(call: HarnessToolCall, cwd = ""): Summary {
  const operation = shortened(operationsOf(call)[0], cwd);
  const describe = operation && (SUMMARIES[operation.kind] as ((operation: HarnessOperation) => Summary) | undefined);
  if (describe) return describe(operation);
  return { icon: "tool", verb: call.name || "tool", subject: argumentsInShort(call), isCode: true };
}

function shortened(operation: HarnessOperation | undefined, cwd: string): HarnessOperation | undefined {
  if (!operation || !("path" in operation) || !operation.path) return operation;
  const path = operation.path === cwd ? "." : pathInside(cwd, operation.path) || operation.path;
  return path === operation.path ? operation : { ...operation, path };
}

/** The file that a call is about, if it may be there to be opened. */
export function fileOf(operation: HarnessOperation | undefined, cwd: string): { readonly path: string; readonly line: number } | null {
  if (operation?.kind !== "read" && operation?.kind !== "write") return null;
  if (operation.kind === "write" && operation.change === "delete") return null;
  const path = pathInside(cwd, operation.path);
  return path ? { path, line: operation.start_line ?? 0 } : null;
}

/** The operations of a call. Before it has started they are unknown, and are guessed from its arguments. */
export function operationsOf(call: HarnessToolCall): readonly HarnessOperation[] {
  if (call.operations?.length) return call.operations;
  const operation = intendedBy(inputOf(call));
  return operation ? [operation] : [];
}

/** The arguments, or what there is of them. */
export function inputOf(call: HarnessToolCall): JSONValue {
  return call.inputText ? partialInput(call.inputText) : (call.input ?? null);
}

const PATHS = ["filePath", "file_path", "path", "filename", "file"] as const;
const CONTENTS = ["content", "contents", "file_text", "new_content", "fileText"] as const;
const REPLACED = ["oldString", "old_string", "oldText", "old_str", "newString", "new_string", "newText", "new_str", "patch", "patchText", "diff"] as const;

function intendedBy(input: JSONValue): HarnessOperation | null {
  const command = commandIn(input);
  if (command) return { kind: "command", command };
  if (typeof input !== "object" || input === null || Array.isArray(input)) return null;
  const has = (keys: readonly string[]) => keys.some((key) => typeof (input as { [key: string]: JSONValue })[key] === "string");
  const path = textIn(input, PATHS);
  if (has(REPLACED)) return { kind: "write", path, change: "update" };
  if (path && has(CONTENTS)) return { kind: "write", path };
  return null;
}

const ASKED = { permission: "Permission", question: "Question", plan: "Plan", tool: "Tool input" } as const;

/** The summary of a call that only asks a person. */
export function askedSummary(relay: HarnessRelay): Summary {
  const subject = relay.question || payloadText(relay, "question") || payloadText(relay, "title") || relay.toolName;
  return { icon: "ask", verb: ASKED[relay.kind] ?? "Question", subject, isCode: false };
}

export function kindOf(call: HarnessToolCall): HarnessOperation["kind"] | "other" {
  return operationsOf(call)[0]?.kind ?? "other";
}

const LOOKING: ReadonlySet<string> = new Set(["read", "search", "list", "skill"]);

/** A finished call that only read something: such calls in a row are shown as one line. */
export function isQuiet(call: HarnessToolCall): boolean {
  return call.status === "complete" && !call.relayId && !call.files?.length && LOOKING.has(kindOf(call));
}

export type Progress = "waiting" | "running" | "complete" | "failed" | "denied" | "not run";

/** How far it is. A call that was written and never carried out has not failed. */
export function progressOf(call: HarnessToolCall, relay: HarnessRelay | undefined): Progress {
  const isDecided = relay !== undefined && relay.kind === "permission" && relay.callId === call.id;
  const isWritten = !call.inputText;
  if (call.status === "running") return relay?.status === "pending" || !isWritten ? "waiting" : "running";
  if (isDecided && relay.status === "denied") return relay.by === "person" || relay.by === "timeout" ? "denied" : "not run"; // else its run ended first
  if (!isWritten || (isDecided && relay.status === "pending")) return "not run";
  return call.status === "error" ? "failed" : "complete";
}

function lines({ start_line: start, end_line: end }: { readonly start_line?: number; readonly end_line?: number }): string {
  if (!start) return "";
  return end && end !== start ? `:${start}–${end}` : `:${start}`;
}

const SHORT_MAX = 160;

function argumentsInShort(call: HarnessToolCall): string {
  const input = inputOf(call);
  if (input === null) return (call.inputText ?? "").slice(0, SHORT_MAX);
  if (typeof input !== "object" || Array.isArray(input)) return JSON.stringify(input).slice(0, SHORT_MAX);
  const pairs = Object.entries(input).map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return pairs.join(", ").slice(0, SHORT_MAX);
}
