import { ThreadPrimitive, useAuiState } from "@assistant-ui/react";
import type { HarnessMessage, HarnessState } from "../../client/src/index.js";
import { Icon } from "../shell/icon.js";
import { Placeholder } from "../shell/placeholder.js";
import { keepPlace } from "../shell/keep_place.js";
import { Revealed } from "../text/revealed.js";
import { FinishedAnswer } from "./finished_answer.js";
import { AssistantMessage, UserMessage } from "./message.js";
import { useConversation } from "./context.js";
import { errorToShow } from "./shown_error.js";
import type { ShownThread } from "./thread_runtime.js";

export function Thread({ state, thread }: { state: HarnessState; thread: ShownThread }) {
  const error = errorToShow(state);
  return (
    <ThreadPrimitive.Root className="thread">
      <FinishedAnswer state={state} />
      <ThreadPrimitive.Viewport className="viewport" tabIndex={0} aria-label="Conversation" role="log" aria-live="off">
        <div className="column">
          {thread.hiddenCount > 0 && (
            <button type="button" className="quiet earlier" onClick={(event) => keepPlace(event.currentTarget, thread.showMore)}>
              Show earlier messages ({thread.hiddenCount})
            </button>
          )}
          {state.messages.length === 0 && state.status !== "running" && (
            <Placeholder
              title="No messages yet"
              text={state.capabilities.submit ? "Write the first message below." : "This conversation is empty."}
            />
          )}
          <ThreadPrimitive.Messages>{renderMessage}</ThreadPrimitive.Messages>
          {error && (
            <p className="notice" data-level="error" role="alert">
              <Icon name="warning" />
              <span>
                <Revealed text={error} kind="speech" />
              </span>
            </p>
          )}
        </div>
        <ThreadPrimitive.ViewportFooter className="to-end">
          <ThreadPrimitive.ScrollToBottom className="round" aria-label="Scroll to the end" title="Scroll to the end">
            <Icon name="down" />
          </ThreadPrimitive.ScrollToBottom>
        </ThreadPrimitive.ViewportFooter>
      </ThreadPrimitive.Viewport>
    </ThreadPrimitive.Root>
  );
}

const renderMessage = () => <OneMessage />;

function OneMessage() {
  const message = useAuiState((store) => store.message.metadata.custom["harness"]) as HarnessMessage | undefined;
  if (!message) return <UpcomingMessage />;
  return message.role === "user" ? <UserMessage message={message} /> : <AssistantMessage message={message} />;
}

/** The run has begun and the agent has not said anything yet. */
function UpcomingMessage() {
  const isSteered = useConversation().isSteered;
  if (isSteered) return null; // what was said last is for the run that goes on
  return (
    <p className="faint thinking" role="status">
      <span className="spinner" aria-hidden="true" /> Starting…
    </p>
  );
}
