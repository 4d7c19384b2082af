/**
 * The answers that were given here, and their outcomes: sent, accepted, refused, or another client was first.
 *
 *     sending ──▶ answered | elsewhere | withdrawn   shown for a moment where the question was
 *        └──────▶ refused                            the question is still open
 *
 * An answer is never stored for later, and names the question that was shown.
 */

import { useSyncExternalStore } from "react";
import type { HarnessCommand, JSONValue } from "../../client/src/index.js";
import { api, type ManyAnswer, type ManyResult } from "../api.js";
import type { AnsweredNote, ErrorFrame, PageSocket } from "../socket/page_socket.js";
import { pageSocket } from "../socket/socket.js";
import { inboxStore, type Inbox, type InboxStore } from "./inbox_store.js";
import type { AskOption, InboxRow } from "./row.js";
import { askKey, openAsks, type OpenAsk } from "./sections.js";

export type Answer =
  | { readonly kind: "approve"; readonly option: AskOption | null }
  | { readonly kind: "deny"; readonly reason: string; readonly stops?: boolean }
  | { readonly kind: "answer"; readonly value: JSONValue; /** For the line that is shown then. */ readonly words: string };

export interface Outcome extends OpenAsk {
  /** `refused`: the question is still open, `text` has the reason. The others are shown for a moment. */
  readonly kind: "sending" | "refused" | "answered" | "elsewhere" | "withdrawn";
  readonly text: string;
}

export type Outcomes = ReadonlyMap<string, Outcome>;

const SHOWN_MS = 5_000;
const WITHDRAWN_SHOWN_MS = 12_000;
const CHANGED = "It changed, look again";
/** The code of the server's error for a question that has an answer. */
const ALREADY_ANSWERED = "already_answered";
const NOTES_MAX = 200;
const ENDED: ReadonlySet<InboxRow["state"]> = new Set(["succeeded", "failed", "interrupted", "lost", "idle"]);

export class Answers {
  readonly #socket: PageSocket;
  readonly #listeners = new Set<() => void>();
  readonly #commands = new Map<string, string>();
  readonly #notes = new Map<string, AnsweredNote>();
  #outcomes: Outcomes = new Map();
  #count = 0;

  constructor(socket: PageSocket, store: InboxStore) {
    this.#socket = socket;
    store.watch((before, after, answered) => {
      for (const note of answered) this.#note(note);
      if (before.isLoaded) this.#compare(before, after);
    });
    socket.onError((error) => this.#refused(error));
    socket.subscribe(() => socket.status !== "open" && this.#disconnected());
  }

  readonly snapshot = (): Outcomes => this.#outcomes;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  answer(one: OpenAsk, answer: Answer): void {
    if (this.#outcomes.get(one.key)?.kind === "sending") return;
    const id = `answer-${++this.#count}`;
    const commands = commandsFor(one, answer, id);
    this.#set({ ...one, kind: "sending", text: wordsFor(one, answer) });
    this.#commands.set(id, one.key);
    if (!this.#socket.send({ type: "commands", session: one.row.id, commands })) this.#refuse(one.key, "Not sent: there is no connection.");
  }

  /** Each is answered for itself; one that changed meanwhile is left out. */
  async answerMany(asks: readonly OpenAsk[], action: "approve" | "deny", reason = ""): Promise<void> {
    const answer: Answer = action === "approve" ? { kind: "approve", option: null } : { kind: "deny", reason };
    for (const one of asks) this.#set({ ...one, kind: "sending", text: wordsFor(one, answer) });
    const answers = asks.map(({ row, ask }): ManyAnswer => ({
      session: row.id,
      relayId: ask.id,
      argumentsHash: ask.argumentsHash,
      action,
      ...(reason && { reason }),
    }));
    let results: readonly ManyResult[];
    try {
      results = (await api.answerMany(answers)).answers;
    } catch (error) {
      for (const { key } of asks) this.#refuse(key, (error as Error).message);
      return;
    }
    for (const { session, relayId, error, code } of results) if (error) this.#refuse(askKey(session, relayId), error, code);
  }

  /** Do not show it any more. */
  dismiss(key: string): void {
    const outcomes = new Map(this.#outcomes);
    if (!outcomes.delete(key)) return;
    this.#become(outcomes);
  }

  /** Comes with the change of the row, before it or after it. */
  #note(note: AnsweredNote): void {
    const key = askKey(note.session, note.relayId);
    this.#notes.set(key, note);
    if (this.#notes.size > NOTES_MAX) this.#notes.delete(this.#notes.keys().next().value!);
    const known = this.#outcomes.get(key);
    if (known?.kind === "elsewhere") this.#set({ ...known, text: elsewhere(known, note) });
  }

  #compare(before: Inbox, after: Inbox): void {
    const open = new Map(openAsks(after.rows.values()).map((one) => [one.key, one]));
    for (const one of openAsks(before.rows.values())) {
      const now = open.get(one.key);
      const known = this.#outcomes.get(one.key);
      if (now && now.ask.argumentsHash !== one.ask.argumentsHash && known?.kind !== "sending") this.#set({ ...now, kind: "refused", text: CHANGED });
      if (now) continue;
      if (known?.kind === "sending") this.#end({ ...known, kind: "answered" });
      else this.#vanished(one, after.rows.get(one.row.id));
    }
  }

  #vanished(one: OpenAsk, row: InboxRow | undefined): void {
    const note = this.#notes.get(one.key);
    if (note) this.#end({ ...one, kind: "elsewhere", text: elsewhere(one, note) });
    else if (!row || ENDED.has(row.state)) this.#end({ ...one, kind: "withdrawn", text: `No longer asked: ${row?.state === "interrupted" ? "the run was stopped" : "the run has ended"}` });
    else this.#end({ ...one, kind: "elsewhere", text: "Answered elsewhere" });
  }

  #refused({ commandId = "", message, code }: ErrorFrame): void {
    const key = this.#commands.get(commandId);
    if (key) this.#refuse(key, message, code);
  }

  #refuse(key: string, text: string, code = ""): void {
    const known = this.#outcomes.get(key);
    if (!known) return;
    if (code === ALREADY_ANSWERED) this.#end({ ...known, kind: "elsewhere", text });
    else this.#set({ ...known, kind: "refused", text });
  }

  #disconnected(): void {
    for (const one of this.#outcomes.values())
      if (one.kind === "sending") this.#set({ ...one, kind: "refused", text: "The connection was lost before the answer was confirmed. Look again." });
  }

  #end(outcome: Outcome): void {
    this.#set(outcome);
    setTimeout(() => this.#outcomes.get(outcome.key) === outcome && this.dismiss(outcome.key), outcome.kind === "withdrawn" ? WITHDRAWN_SHOWN_MS : SHOWN_MS);
  }

  #set(outcome: Outcome): void {
    this.#become(new Map(this.#outcomes).set(outcome.key, outcome));
  }

  #become(outcomes: Outcomes): void {
    this.#outcomes = outcomes;
    for (const listener of this.#listeners) listener();
  }
}

function commandsFor({ ask }: OpenAsk, answer: Answer, id: string): readonly HarnessCommand[] {
  const bound = { id, relayId: ask.id, ...(ask.argumentsHash && { argumentsHash: ask.argumentsHash }) };
  if (answer.kind === "approve") return [{ type: "approve", ...bound, ...(answer.option?.id && { optionId: answer.option.id }) }];
  if (answer.kind === "answer") return [{ type: "answer", ...bound, answer: answer.value }];
  const denial: HarnessCommand = { type: "deny", ...bound, ...(answer.reason && { reason: answer.reason }) };
  return answer.stops ? [denial, { type: "cancel" }] : [denial];
}

function wordsFor({ ask }: OpenAsk, answer: Answer): string {
  if (answer.kind === "answer") return `Answered: ${answer.words}`;
  const what = ask.subject.split("\n")[0] || ask.title;
  if (answer.kind === "deny") return `Denied: ${what}`;
  return answer.option?.kind === "allow-always" ? `Allowed from now on: ${what}` : `Allowed once: ${what}`;
}

const DONE = { approve: "Allowed", deny: "Denied", answer: "Answered" } as const;

/** “Allowed by Firefox in another window: npm run build” */
function elsewhere({ ask }: OpenAsk, { by, action }: AnsweredNote): string {
  return `${DONE[action] ?? "Answered"} by ${by || "another client"}: ${ask.subject.split("\n")[0] || ask.title}`;
}

let shared: Answers | null = null;

export function sharedAnswers(): Answers {
  return (shared ??= new Answers(pageSocket(), inboxStore()));
}

export function useOutcomes(): Outcomes {
  const answers = sharedAnswers();
  return useSyncExternalStore(answers.subscribe, answers.snapshot);
}
