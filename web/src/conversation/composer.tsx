import { ComposerPrimitive, useAui, useAuiState } from "@assistant-ui/react";
import type { KeyboardEvent } from "react";
import type { ConnectionStatus, HarnessState } from "../../client/src/index.js";
import type { ChosenFiles } from "../files/chosen_files.js";
import { AttachButton, ChosenList } from "../files/chosen_list.js";
import { continuingAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { useConversation } from "./context.js";

interface ComposerProps {
  readonly state: HarnessState;
  readonly connection: ConnectionStatus;
  readonly chosen: ChosenFiles;
}

export function Composer(props: ComposerProps) {
  const { state } = props;
  if (!state.capabilities.submit && !state.capabilities.steer) return <ReadOnly state={state} />;
  return (
    <div className="composer-area" {...props.chosen.target}>
      <FollowUps state={state} />
      <ChosenList chosen={props.chosen} />
      <Writing {...props} />
    </div>
  );
}

function Writing({ state, connection, chosen }: ComposerProps) {
  const aui = useAui();
  const { client } = useConversation();
  const isEmpty = useAuiState((store) => store.composer.isEmpty);
  const isRunning = state.status === "running";
  const steer = () => aui.composer.send({ steer: true });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !isRunning || !state.capabilities.steer) return;
    event.preventDefault();
    if (!isEmpty) steer();
  };
  return (
    <ComposerPrimitive.Root className="composer" data-running={isRunning || undefined}>
      <ComposerPrimitive.Input
        className="composer-input"
        placeholder={placeholder(state, connection)}
        aria-label="Message"
        rows={1}
        maxRows={12}
        autoFocus
        onKeyDown={onKeyDown}
      />
      <div className="composer-buttons">
        {state.capabilities.submit && <AttachButton chosen={chosen} />}
        {isRunning && state.capabilities.cancel && (
          <ComposerPrimitive.Cancel className="button stop" title={state.followUps.length ? "Stop and keep the queue (Escape)" : "Stop (Escape)"}>
            <Icon name="stop" /> Stop
          </ComposerPrimitive.Cancel>
        )}
        {isRunning && state.capabilities.cancel && state.followUps.length > 0 && (
          <button type="button" className="button" onClick={() => client.cancel("clear")} title="Stop and clear the queue">
            Stop and clear
          </button>
        )}
        {isRunning && state.capabilities.steer && (
          <button type="button" className="button" disabled={isEmpty} onClick={steer} title="Send to the agent now, while it works (Ctrl+Enter)">
            <Icon name="steer" /> Steer
          </button>
        )}
        {state.capabilities.submit && (
          <ComposerPrimitive.Send className="button primary" title={isRunning ? "Send when this run ends (Enter)" : "Send (Enter)"}>
            <Icon name={isRunning ? "queue" : "send"} /> {isRunning ? "Queue" : "Send"}
          </ComposerPrimitive.Send>
        )}
      </div>
    </ComposerPrimitive.Root>
  );
}

function placeholder(state: HarnessState, connection: ConnectionStatus): string {
  if (connection === "waiting") return "Offline: messages are sent when the connection is back";
  if (state.status === "running") return state.capabilities.submit ? "Write a follow-up" : "Send a message to the agent";
  return state.messages.length ? "Reply" : "What should the agent do?";
}

/** Prompts that wait for their turn; while nothing runs, somebody has to say that it has come. */
function FollowUps({ state }: { state: HarnessState }) {
  const { client } = useConversation();
  const count = state.followUps.length;
  if (!count) return null;
  const clear = () => state.followUps.forEach(({ id }) => client.withdraw(id));
  return (
    <div className="follow-ups">
      {state.status !== "running" && (
        <div className="follow-ups-head">
          <span>{count === 1 ? "One queued message was not sent." : `${count} queued messages were not sent.`}</span>
          <button type="button" className="button small primary" onClick={() => client.continueQueue()}>
            Continue
          </button>
          <button type="button" className="button small" onClick={clear}>
            Clear
          </button>
        </div>
      )}
      <ol aria-label="Queued messages">
        {state.followUps.map(({ id, text }) => (
          <li key={id}>
            <Icon name="queue" />
            <span className="clipped">{inOneLine(text)}</span>
            <button type="button" className="quiet small" onClick={() => client.withdraw(id)} aria-label={`Remove from the queue: ${inOneLine(text)}`} title="Remove from the queue">
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}

function ReadOnly({ state }: { state: HarnessState }) {
  const { sessionId } = useConversation();
  return (
    <div className="read-only faint">
      <span>
        {state.isLive
          ? "Another program runs this conversation; you can only watch it here."
          : "This run has ended."}
      </span>
      {!state.isLive && (
        <a className="button" href={continuingAddress(sessionId)}>
          <Icon name="steer" /> Continue in a new conversation
        </a>
      )}
      {state.isLive && state.capabilities.cancel && <StopButton />}
    </div>
  );
}

function StopButton() {
  const { client } = useConversation();
  return (
    <button type="button" className="button stop" onClick={() => client.cancel()}>
      <Icon name="stop" /> Stop
    </button>
  );
}
