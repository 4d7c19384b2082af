/** The state of one conversation, as `docs/protocol.md` describes it: what the server sends and the client shows. */

import type { JSONValue } from "./object_stream.js";

export type MessageStatus = "pending" | "streaming" | "complete" | "error";

export interface HarnessState {
  readonly status: "idle" | "running" | "error";
  readonly messages: readonly HarnessMessage[];
  readonly error?: string | null;
  readonly seq: number;
  readonly sessionId: string;
  readonly title: string;
  readonly agent: string;
  readonly model: string;
  readonly mode: string;
  readonly cwd: string;
  readonly tasks: readonly HarnessTask[];
  readonly followUps: readonly HarnessFollowUp[];
  /** Accepted by `steer`, and not taken by the run yet. */
  readonly steering: readonly HarnessFollowUp[];
  readonly relays: readonly HarnessRelay[];
  /** What is always allowed now. */
  readonly grants: readonly HarnessGrant[];
  readonly usage: HarnessUsage;
  readonly runs: readonly HarnessRun[];
  readonly capabilities: HarnessCapabilities;
  readonly isLive: boolean;
}

export interface HarnessMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly status: MessageStatus;
  readonly toolCalls?: readonly HarnessToolCall[] | null;
  readonly createdMs?: number;
  readonly runId?: string;
  /** The same as `content` and `toolCalls`, in their order. */
  readonly parts?: readonly HarnessPart[];
}

export type HarnessPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "tool"; readonly callId: string }
  | HarnessFilePart
  | { readonly type: "notice"; readonly level: "info" | "warning" | "error"; readonly text: string; readonly code: string };

export interface HarnessFilePart {
  readonly type: "file";
  readonly mediaType: string;
  readonly name: string;
  readonly data?: string;
  readonly url?: string;
}

export interface HarnessToolCall {
  readonly id: string;
  readonly name: string;
  readonly status: "running" | "complete" | "error";
  readonly input?: JSONValue;
  readonly inputText?: string;
  readonly output?: string;
  readonly outputLength?: number;
  readonly exitCode?: number | null;
  readonly durationMs?: number | null;
  readonly operations?: readonly HarnessOperation[];
  readonly relayId?: string | null;
  /** Pictures and files that came besides the output. */
  readonly files?: readonly HarnessFilePart[];
  readonly messages?: readonly HarnessMessage[] | null;
  readonly logId?: string | null;
}

interface Lines {
  readonly start_line?: number;
  readonly end_line?: number;
}

export type HarnessOperation = { readonly success?: boolean } & (
  | { readonly kind: "command"; readonly command: string; readonly cwd?: string; readonly exit_code?: number }
  | ({ readonly kind: "read"; readonly path: string } & Lines)
  | ({
      readonly kind: "write";
      readonly path: string;
      readonly change?: "create" | "update" | "delete" | "move" | "";
    } & Lines)
  | { readonly kind: "search"; readonly query: string; readonly path?: string }
  | { readonly kind: "list"; readonly path?: string }
  | ({ readonly kind: "skill"; readonly path: string; readonly name?: string } & Lines)
  | { readonly kind: "fetch"; readonly url?: string; readonly query?: string }
  | {
      readonly kind: "spawn";
      readonly agent_id?: string;
      readonly name?: string;
      readonly task?: string;
      readonly action?: "started" | "completed" | "failed";
    }
  | { readonly kind: "tasks" }
);

export interface HarnessRelay {
  readonly id: string;
  readonly kind: "permission" | "question" | "plan" | "tool";
  readonly callId: string;
  readonly toolName: string;
  readonly input: JSONValue;
  readonly question: string;
  /** Of a permission: the answers that there are; else what to choose from. */
  readonly options: readonly string[] | readonly HarnessRelayOption[] | null;
  readonly payload: JSONValue;
  readonly resumeSchema: JSONValue;
  readonly category: string;
  /** Of a permission: what the call would change in files. */
  readonly preview: readonly HarnessFilePreview[] | null;
  /** The sub-agent that asks; empty when the agent itself does. */
  readonly subagent: string;
  readonly parentCallId: string;
  readonly status: "pending" | "approved" | "denied";
  readonly reason: string;
  readonly answer: JSONValue;
  readonly by: "" | "person" | "policy" | "timeout";
  readonly choice: string;
  readonly runId: string;
  /** The other calls that the same answer is for. */
  readonly further: readonly { readonly toolName: string; readonly input: JSONValue; readonly category: string; readonly why: string }[];
  /** Why a person is asked, as the rules say it. */
  readonly why: string;
}

export interface HarnessRelayOption {
  readonly id: string;
  readonly kind: "allow-once" | "allow-always" | "reject-once";
  /** All that is granted, in words. */
  readonly label: string;
  readonly grants: readonly { readonly tool: string; readonly params?: { readonly [argument: string]: string }; readonly closed?: boolean }[];
}

export interface HarnessFilePreview {
  readonly path: string;
  readonly change: "create" | "update" | "delete";
  readonly added: number;
  readonly removed: number;
  readonly diff: string;
  readonly hiddenLines: number;
}

export interface HarnessGrant {
  readonly id: string;
  readonly label: string;
}

export interface HarnessTask {
  readonly id: string;
  readonly text: string;
  readonly status: "pending" | "in_progress" | "completed";
  readonly activeForm: string;
}

export interface HarnessFollowUp {
  readonly id: string;
  readonly text: string;
}

/** Tokens and money; null: unknown. `input` excludes the cache, `output` the reasoning. */
export interface HarnessUsage {
  readonly input: number | null;
  readonly output: number | null;
  readonly cacheRead: number | null;
  readonly cacheWrite: number | null;
  readonly reasoning: number | null;
  readonly costUsd: number | null;
}

export interface HarnessRun {
  readonly id: string;
  readonly agent: string;
  readonly model: string;
  readonly name: string;
  readonly parentCallId: string;
  readonly status: string;
  readonly startedMs: number;
  readonly durationMs: number | null;
  readonly usage: HarnessUsage;
}

export interface HarnessCapabilities {
  readonly submit: boolean;
  readonly steer: boolean;
  readonly answer: boolean;
  readonly cancel: boolean;
  /** Another conversation can start from an earlier message of this one. */
  readonly branch: boolean;
}

const NO_USAGE: HarnessUsage = {
  input: null,
  output: null,
  cacheRead: null,
  cacheWrite: null,
  reasoning: null,
  costUsd: null,
};

/** What a client has before the server has sent anything. */
export const EMPTY_STATE: HarnessState = {
  status: "idle",
  messages: [],
  seq: 0,
  sessionId: "",
  title: "",
  agent: "",
  model: "",
  mode: "",
  cwd: "",
  tasks: [],
  followUps: [],
  steering: [],
  relays: [],
  grants: [],
  usage: NO_USAGE,
  runs: [],
  capabilities: { submit: false, steer: false, answer: false, cancel: false, branch: false },
  isLive: false,
};

/** A message's parts in order; without parts, its text comes first and then its calls. */
export function partsOf(message: HarnessMessage): readonly HarnessPart[] {
  if (message.parts) return message.parts;
  const calls = (message.toolCalls ?? []).map((call): HarnessPart => ({ type: "tool", callId: call.id }));
  return message.content ? [{ type: "text", text: message.content }, ...calls] : calls;
}
