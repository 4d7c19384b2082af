/**
 * Messages and calls as one flat list, so that only what is visible has to be drawn.
 *
 * A message becomes one item per part. What did not change keeps its items from one state to the next.
 */

import { partsOf, type HarnessMessage, type HarnessPart, type HarnessState, type HarnessToolCall } from "../../client/src/index.js";
import { isQuiet } from "../tools/summary.js";

export type Item =
  | { readonly kind: "turn"; readonly key: string; readonly number: number; readonly message: HarnessMessage }
  | { readonly kind: "user"; readonly key: string; readonly message: HarnessMessage }
  /** A steering message. `takenMs` is null until the run has taken it. */
  | { readonly kind: "steered"; readonly key: string; readonly message: HarnessMessage; readonly takenMs: number | null }
  | PartItem
  /** Calls in a row that only look around. */
  | { readonly kind: "looks"; readonly key: string; readonly message: HarnessMessage; readonly calls: readonly HarnessToolCall[] }
  /** The message has started and has no text yet. */
  | { readonly kind: "working"; readonly key: string; readonly message: HarnessMessage }
  /** The end of a run. */
  | { readonly kind: "end"; readonly key: string; readonly message: HarnessMessage };

export interface PartItem {
  readonly kind: "part";
  readonly key: string;
  readonly message: HarnessMessage;
  readonly part: HarnessPart;
  readonly call: HarnessToolCall | undefined;
  readonly isGrowing: boolean;
}

export class ItemList {
  #parts = new WeakMap<HarnessMessage, readonly Item[]>();
  #others = new WeakMap<HarnessMessage, Map<string, Item>>();

  /** `messages`: of the conversation, or of one of its sub-agents. */
  of(messages: readonly HarnessMessage[], steering: HarnessState["steering"]): readonly Item[] {
    const waiting = new Set(steering.map(({ id }) => id));
    const shown = messages.filter((message) => isShown(message, waiting));
    const ends = endsOf(shown);
    const started = new Set<string>();
    const items: Item[] = [];
    let turns = 0;
    shown.forEach((message, index) => {
      if (message.role === "assistant") {
        items.push(...this.#partsOf(message));
        if (ends.get(message.runId ?? "") === message) items.push(this.#other(message, "end", { kind: "end", key: `${message.id} end`, message }));
      } else if (message.status === "pending" || (message.runId && started.has(message.runId))) {
        const takenMs = message.status === "pending" ? null : (shown[index + 1]?.createdMs ?? message.createdMs ?? 0);
        items.push(this.#other(message, `steered ${takenMs}`, { kind: "steered", key: message.id, message, takenMs }));
      } else {
        turns += 1;
        items.push(this.#other(message, `turn ${turns}`, { kind: "turn", key: `${message.id} turn`, number: turns, message }));
        items.push(this.#other(message, "user", { kind: "user", key: message.id, message }));
      }
      if (message.runId) started.add(message.runId);
    });
    return items;
  }

  #partsOf(message: HarnessMessage): readonly Item[] {
    const known = this.#parts.get(message) ?? itemsOf(message);
    this.#parts.set(message, known);
    return known;
  }

  #other(message: HarnessMessage, name: string, item: Item): Item {
    const known = this.#others.get(message) ?? new Map<string, Item>();
    this.#others.set(message, known);
    if (!known.has(name)) known.set(name, item);
    return known.get(name)!;
  }
}

/** A prompt that waits for its turn is shown in the queue, and one that was removed from it was never sent. */
function isShown({ role, status, id }: HarnessMessage, steering: ReadonlySet<string>): boolean {
  return role !== "user" || status === "complete" || status === "streaming" || (status === "pending" && steering.has(id));
}

function endsOf(messages: readonly HarnessMessage[]): ReadonlyMap<string, HarnessMessage> {
  return new Map(messages.flatMap((message) => (message.role === "assistant" && message.runId ? [[message.runId, message] as const] : [])));
}

function itemsOf(message: HarnessMessage): readonly Item[] {
  const calls = new Map((message.toolCalls ?? []).map((call) => [call.id, call]));
  const parts = partsOf(message);
  const isGoingOn = message.status === "pending" || message.status === "streaming";
  const items: Item[] = [];
  parts.forEach((part, index) => {
    const call = part.type === "tool" ? calls.get(part.callId) : undefined;
    if (isBlank(part, call)) return;
    const key = `${message.id} ${index}`;
    const last = items.at(-1);
    if (call && isQuiet(call)) {
      if (last?.kind === "looks") items[items.length - 1] = { ...last, calls: [...last.calls, call] };
      else items.push({ kind: "looks", key, message, calls: [call] });
    } else items.push({ kind: "part", key, message, part, call, isGrowing: isGoingOn && index === parts.length - 1 });
  });
  if (isGoingOn && !items.length) items.push({ kind: "working", key: `${message.id} working`, message });
  return items;
}

function isBlank(part: HarnessPart, call: HarnessToolCall | undefined): boolean {
  if (part.type === "tool") return !call;
  return (part.type === "text" || part.type === "reasoning" || part.type === "notice") && !part.text.trim();
}
