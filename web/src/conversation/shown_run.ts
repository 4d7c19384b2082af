/** A sub-agent shown as a conversation of its own: which one is in the address, behind `run=`. */

import { useSyncExternalStore } from "react";
import type { HarnessMessage, HarnessRun, HarnessState } from "../../client/src/index.js";
import { sessionAddress } from "../route.js";

export function runAddress(sessionId: string, runId: string): string {
  return `${sessionAddress(sessionId)}?${new URLSearchParams({ run: runId })}`;
}

function subscribe(listener: () => void): () => void {
  window.addEventListener("hashchange", listener);
  return () => window.removeEventListener("hashchange", listener);
}

function wantedRun(): string {
  return new URLSearchParams(/\?(.*)$/.exec(window.location.hash)?.[1] ?? "").get("run") ?? "";
}

export interface ShownRun {
  readonly run: HarnessRun;
  readonly messages: readonly HarnessMessage[];
}

/** Null: all of the conversation is shown. */
export function useShownRun(state: HarnessState): ShownRun | null {
  const runId = useSyncExternalStore(subscribe, wantedRun);
  const run = runId ? state.runs.find(({ id }) => id === runId) : undefined;
  if (!run?.parentCallId) return null;
  return { run, messages: messagesBelow(state.messages, run.parentCallId) ?? [] };
}

/** The messages inside of a call, at any depth. */
function messagesBelow(messages: readonly HarnessMessage[], callId: string): readonly HarnessMessage[] | null {
  for (const { toolCalls } of messages)
    for (const call of toolCalls ?? []) {
      if (call.id === callId) return call.messages ?? [];
      const found = call.messages?.length ? messagesBelow(call.messages, callId) : null;
      if (found) return found;
    }
  return null;
}
