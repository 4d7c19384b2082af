/**
 * The state as the messages of assistant-ui (`ThreadMessage[]`), without depending on it.
 *
 * What did not change keeps its identity from one conversion to the next. What assistant-ui has no place for is in
 * `artifact` (the whole tool call), in `metadata.custom.harness` (the whole message) and in `data` parts (notices).
 */

import type { JSONValue } from "./object_stream.js";
import {
  partsOf,
  type HarnessMessage,
  type HarnessPart,
  type HarnessRelay,
  type HarnessRelayOption,
  type HarnessState,
  type HarnessToolCall,
} from "./state.js";

export type ThreadPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "image"; readonly image: string; readonly filename: string }
  | { readonly type: "file"; readonly data: string; readonly mimeType: string; readonly filename: string }
  | { readonly type: "data"; readonly name: "notice"; readonly data: Extract<HarnessPart, { type: "notice" }> }
  | ThreadToolCall;

export interface ThreadToolCall {
  readonly type: "tool-call";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly args: { readonly [key: string]: JSONValue };
  readonly argsText: string;
  readonly result?: string;
  readonly isError?: boolean;
  readonly artifact: HarnessToolCall;
  readonly approval?: ThreadApproval;
  readonly messages?: readonly ThreadMessage[];
}

export interface ThreadApproval {
  readonly id: string;
  readonly prompt?: string;
  readonly display: "decision" | "select" | "text";
  readonly allowFreeform?: boolean;
  readonly approved?: boolean;
  readonly reason?: string;
  readonly isAutomatic?: boolean;
  readonly resolution?: "expired";
  readonly options?: readonly { readonly id: string; readonly kind: string; readonly label?: string }[];
}

export type ThreadStatus =
  | { readonly type: "running" }
  | { readonly type: "requires-action"; readonly reason: "tool-calls" | "interrupt" }
  | { readonly type: "complete"; readonly reason: "stop" }
  | { readonly type: "incomplete"; readonly reason: "error"; readonly error?: string };

interface ThreadMessageCommon {
  readonly id: string;
  readonly createdAt: Date;
}

export type ThreadMessage = ThreadMessageCommon &
  (
    | {
        readonly role: "user";
        readonly content: readonly Exclude<ThreadPart, ThreadToolCall | { type: "reasoning" }>[];
        readonly attachments: readonly never[];
        readonly metadata: { readonly custom: { readonly harness: HarnessMessage } };
      }
    | {
        readonly role: "assistant";
        readonly content: readonly ThreadPart[];
        readonly status: ThreadStatus;
        readonly metadata: {
          readonly unstable_state: null;
          readonly unstable_annotations: readonly never[];
          readonly unstable_data: readonly never[];
          readonly steps: readonly never[];
          readonly custom: { readonly harness: HarnessMessage };
        };
      }
  );

interface Converted {
  readonly message: ThreadMessage;
  /** The relays it was made with: these are not in the message itself. */
  readonly relays: readonly (HarnessRelay | undefined)[];
  readonly error: string;
}

type RelayTable = ReadonlyMap<string, HarnessRelay>;

const NO_RELAYS: readonly never[] = [];

export class ThreadMessageConverter {
  readonly #messages = new WeakMap<HarnessMessage, Converted>();
  readonly #calls = new WeakMap<HarnessToolCall, { part: ThreadToolCall; relays: readonly unknown[] }>();
  #relays: RelayTable = new Map();
  #relaySource: readonly HarnessRelay[] | null = null;

  convert(state: Pick<HarnessState, "messages" | "relays" | "error">): readonly ThreadMessage[] {
    if (this.#relaySource !== state.relays) {
      this.#relaySource = state.relays;
      this.#relays = new Map((state.relays ?? []).map((relay) => [relay.id, relay]));
    }
    return state.messages.map((message) => this.#message(message, state.error ?? ""));
  }

  #message(message: HarnessMessage, stateError: string): ThreadMessage {
    const relays = relaysOf(message, this.#relays);
    const error = message.status === "error" ? stateError : "";
    const known = this.#messages.get(message);
    if (known && known.error === error && sameItems(known.relays, relays)) return known.message;
    const converted = message.role === "user" ? userMessage(message) : this.#assistantMessage(message, relays, error);
    this.#messages.set(message, { message: converted, relays, error });
    return converted;
  }

  #assistantMessage(
    message: HarnessMessage,
    relays: readonly (HarnessRelay | undefined)[],
    error: string,
  ): ThreadMessage {
    const calls = new Map((message.toolCalls ?? []).map((call) => [call.id, call]));
    const content: ThreadPart[] = [];
    for (const part of partsOf(message)) {
      const call = part.type === "tool" ? calls.get(part.callId) : undefined;
      const converted = part.type === "tool" ? call && this.#toolCall(call) : plainPart(part);
      if (converted) content.push(converted);
    }
    return {
      id: message.id,
      createdAt: new Date(message.createdMs ?? 0),
      role: "assistant",
      content,
      status: threadStatus(message, relays, error),
      metadata: {
        unstable_state: null,
        unstable_annotations: [],
        unstable_data: [],
        steps: [],
        custom: { harness: message },
      },
    };
  }

  #toolCall(call: HarnessToolCall): ThreadToolCall {
    const relays = relaysOfCall(call, this.#relays);
    const known = this.#calls.get(call);
    if (known && sameItems(known.relays, relays)) return known.part;
    const relay = call.relayId ? this.#relays.get(call.relayId) : undefined;
    const input = call.input ?? null;
    const part: ThreadToolCall = {
      type: "tool-call",
      toolCallId: call.id,
      toolName: call.name,
      args: isRecord(input) ? input : {},
      argsText: call.inputText || (input === null ? "" : JSON.stringify(input)),
      ...(call.status !== "running" && { result: call.output ?? "" }),
      ...(call.status === "error" && { isError: true }),
      artifact: call,
      ...(relay && { approval: approvalOf(relay) }),
      ...(call.messages?.length && { messages: call.messages.map((message) => this.#message(message, "")) }),
    };
    this.#calls.set(call, { part, relays });
    return part;
  }
}

/** The messages of one state; a client that converts again and again keeps a `ThreadMessageConverter`. */
export function toThreadMessages(state: HarnessState): readonly ThreadMessage[] {
  return new ThreadMessageConverter().convert(state);
}

function userMessage(message: HarnessMessage): ThreadMessage {
  const content = partsOf(message).flatMap((part) => plainPart(part) ?? []);
  return {
    id: message.id,
    createdAt: new Date(message.createdMs ?? 0),
    role: "user",
    content: content.filter((part) => part.type !== "reasoning"),
    attachments: [],
    metadata: { custom: { harness: message } },
  };
}

function plainPart(part: HarnessPart): Exclude<ThreadPart, ThreadToolCall> | undefined {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text.trim() ? { type: part.type, text: part.text } : undefined;
    case "file":
      return filePart(part);
    case "notice":
      return { type: "data", name: "notice", data: part };
    default:
      return undefined; // a newer server's part: an old client passes it over
  }
}

function filePart(part: Extract<HarnessPart, { type: "file" }>): Exclude<ThreadPart, ThreadToolCall> {
  const source = part.data ? `data:${part.mediaType};base64,${part.data}` : (part.url ?? "");
  return part.mediaType.startsWith("image/")
    ? { type: "image", image: source, filename: part.name }
    : { type: "file", data: part.data ?? part.url ?? "", mimeType: part.mediaType, filename: part.name };
}

function threadStatus(
  message: HarnessMessage,
  relays: readonly (HarnessRelay | undefined)[],
  error: string,
): ThreadStatus {
  if (message.status === "complete") return { type: "complete", reason: "stop" };
  if (message.status === "error") return { type: "incomplete", reason: "error", ...(error && { error }) };
  const waiting = relays.find((relay) => relay?.status === "pending");
  if (!waiting) return { type: "running" };
  return { type: "requires-action", reason: waiting.kind === "permission" ? "tool-calls" : "interrupt" };
}

/** For a permission without options. */
const DECISIONS = [
  { id: "allow-once", kind: "allow-once" },
  { id: "reject-once", kind: "reject-once" },
] as const;

function approvalOf(relay: HarnessRelay): ThreadApproval {
  const isDecision = relay.kind === "permission" || relay.kind === "plan";
  const offered: readonly (string | HarnessRelayOption)[] = relay.options ?? [];
  const choices = offered.map((one) =>
    typeof one === "string" ? { id: one, kind: "_choice", label: one } : { id: one.id, kind: one.kind, label: one.label },
  );
  const timedOut = relay.status !== "pending" && relay.by === "timeout";
  return {
    id: relay.id,
    ...(relay.question && { prompt: relay.question }),
    display: isDecision ? "decision" : choices.length ? "select" : "text",
    ...(!isDecision && choices.length && { allowFreeform: true }),
    ...(isDecision ? { options: choices.length ? choices : DECISIONS } : choices.length ? { options: choices } : {}),
    ...(relay.status !== "pending" && !timedOut && { approved: relay.status === "approved" }),
    ...(relay.reason && { reason: relay.reason }),
    ...(relay.by === "policy" && { isAutomatic: true }),
    ...(timedOut && { resolution: "expired" as const }),
  };
}

/** The relays of a message's calls, those of its sub-agents included: what its conversion depends on besides itself. */
function relaysOf(message: HarnessMessage, table: RelayTable): readonly (HarnessRelay | undefined)[] {
  if (!message.toolCalls?.length || !table.size) return NO_RELAYS;
  return message.toolCalls.flatMap((call) => relaysOfCall(call, table));
}

function relaysOfCall(call: HarnessToolCall, table: RelayTable): readonly (HarnessRelay | undefined)[] {
  const nested = call.messages?.length ? call.messages.flatMap((message) => relaysOf(message, table)) : NO_RELAYS;
  return call.relayId ? [table.get(call.relayId), ...nested] : nested;
}

function sameItems(left: readonly unknown[], right: readonly unknown[]): boolean {
  return left === right || (left.length === right.length && left.every((item, index) => item === right[index]));
}

function isRecord(value: unknown): value is { readonly [key: string]: JSONValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
