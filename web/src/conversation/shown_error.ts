import type { HarnessState } from "../../client/src/index.js";

/** The error to show below the conversation: none when the last answer has the same text. */
export function errorToShow(state: Pick<HarnessState, "status" | "error" | "messages">): string | null {
  if (state.status !== "error" || !state.error) return null;
  const text = state.error.trim();
  const last = state.messages.findLast((message) => message.role === "assistant");
  const isSaid = last?.parts?.some((part) => part.type === "notice" && part.level === "error" && part.text.trim() === text);
  return isSaid ? null : state.error;
}
