/** The conversation as a store of assistant-ui: its messages from the server's state, its wishes as commands. */

import {
  useExternalStoreRuntime,
  type AppendMessage,
  type AssistantRuntime,
  type ExternalThreadQueueAdapter,
  type ThreadMessage,
} from "@assistant-ui/react";
import { useCallback, useMemo, useState } from "react";
import { ThreadMessageConverter, type HarnessClient, type HarnessMessage, type HarnessState } from "../../client/src/index.js";
import type { ChosenFiles } from "../files/chosen_files.js";
import type { LiveConversation } from "./live_state.js";

/** Messages mounted at first; a person who wants to read further up asks for them. */
const SHOWN_FIRST = 40;

export interface ShownThread {
  readonly hiddenCount: number;
  readonly showMore: () => void;
}

export function useThreadRuntime(
  state: HarnessState,
  live: LiveConversation,
  isReplay: boolean,
  chosen: ChosenFiles,
): { readonly runtime: AssistantRuntime; readonly thread: ShownThread } {
  const { client } = live;
  const [converter] = useState(() => new ThreadMessageConverter());
  const [shownMax, setShownMax] = useState(SHOWN_FIRST);
  const all = useMemo(
    () => converter.convert({ ...state, messages: shownMessages(state) }),
    // The state's other fields play no part in it.
    [converter, state.messages, state.relays, state.error, state.steering],
  );
  const messages = useMemo(() => all.slice(-shownMax) as unknown as readonly ThreadMessage[], [all, shownMax]);
  const queue = useQueue(state, client, chosen.take);
  const runtime = useExternalStoreRuntime<ThreadMessage>({
    messages,
    isRunning: state.status === "running" && !isReplay,
    isDisabled: isReplay || live.connection === "closed",
    isSendDisabled: !state.capabilities.submit,
    queue,
    onNew: async (message) => client.submit(textOf(message), chosen.take()),
    onCancel: async () => client.cancel(),
    onRespondToToolApproval: ({ approvalId, approved, reason }) =>
      approved === false ? client.deny(approvalId, reason) : client.approve(approvalId),
  });
  const hiddenCount = all.length - messages.length;
  const showMore = useCallback(() => setShownMax((shown) => shown * 4), []);
  const thread = useMemo(() => ({ hiddenCount, showMore }), [hiddenCount, showMore]);
  return { runtime, thread };
}

/**
 * A prompt that waits for its turn is shown in the queue, and one that was removed from it was never said. What steers
 * the run is shown from the moment it was accepted.
 */
function shownMessages(state: HarnessState): readonly HarnessMessage[] {
  const steering = new Set(state.steering.map(({ id }) => id));
  return state.messages.filter(
    ({ role, status, id }) => role !== "user" || status === "complete" || status === "streaming" || (status === "pending" && steering.has(id)),
  );
}

function useQueue(state: HarnessState, client: HarnessClient, takeFiles: ChosenFiles["take"]): ExternalThreadQueueAdapter {
  return useMemo(
    () => ({
      items: state.followUps.map(({ id, text }) => ({ id, prompt: text, parts: [{ type: "text" as const, text }] })),
      steerItems: [],
      enqueue: (message) => client.submit(textOf(message), takeFiles()),
      // The runtime calls this for everything sent during a run: only who asked to steer steers.
      steer: (message) => (message.steer ? client.steer(textOf(message)) : client.submit(textOf(message), takeFiles())),
      remove: (id) => client.withdraw(id),
      move: () => undefined,
      edit: () => undefined,
    }),
    [state.followUps, client, takeFiles],
  );
}

function textOf(message: AppendMessage): string {
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join("");
}
