/** The field for the next message: sent, used to steer the current run, or queued after it. */

import { useRef, type KeyboardEvent } from "react";
import type { ConnectionStatus, HarnessState } from "../../client/src/index.js";
import type { ChosenFiles } from "../files/chosen_files.js";
import { AttachButton, ChosenList } from "../files/chosen_list.js";
import { useDraft } from "../prompt/drafts.js";
import { PromptField } from "../prompt/prompt_field.js";
import { continuingAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { useConversation } from "./context.js";
import { ContinueBar } from "./continue_bar.js";
import { Queue } from "./queue.js";
import { isOfHistory, StoredBar } from "./stored_bar.js";
import { StopButton } from "./stop_button.js";

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
      <ContinueBar state={state} />
      <Queue state={state} />
      <ChosenList chosen={props.chosen} />
      <Writing {...props} />
    </div>
  );
}

type Way = "send" | "steer" | "queue";

function Writing({ state, connection, chosen }: ComposerProps) {
  const { client, sessionId } = useConversation();
  const [draft, setDraft] = useDraft(sessionId);
  const field = useRef<HTMLTextAreaElement>(null);
  const isRunning = state.status === "running";
  const { submit, steer, cancel } = state.capabilities;
  // A steering message takes no files: with files it is queued.
  const canSteer = isRunning && steer && !chosen.files.length;
  const usual: Way = !isRunning ? "send" : canSteer ? "steer" : "queue";
  const isEmpty = !draft.trim();
  const send = (way: Way) => {
    if (isEmpty || (way === "steer" ? !canSteer : !submit)) return;
    if (way === "steer") client.steer(draft);
    else client.submit(draft, chosen.take());
    setDraft("");
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") leave(field.current);
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    send(event.altKey && isRunning ? "queue" : usual);
  };
  return (
    <form className="composer" data-running={isRunning || undefined} onSubmit={(event) => (event.preventDefault(), send(usual))}>
      <PromptField
        field={field}
        className="composer-input"
        label="Message"
        placeholder={placeholder(state, connection)}
        value={draft}
        onChange={setDraft}
        onKeyDown={onKeyDown}
        source={{ session: sessionId, agent: state.agent }}
        isFocused={window.matchMedia("(hover: hover)").matches}
      />
      <div className="composer-buttons">
        {submit && <AttachButton chosen={chosen} />}
        {isRunning && cancel && <StopButton queued={state.followUps.length} />}
        {isRunning && submit && usual !== "queue" && (
          <button type="button" className="button" disabled={isEmpty} onClick={() => send("queue")} title="Send when this run ends (Alt+Enter)">
            <Icon name="queue" /> Queue
          </button>
        )}
        {(submit || steer) && (
          <button type="submit" className="button primary" disabled={isEmpty} title={TITLES[usual]}>
            <Icon name={usual} /> {NAMES[usual]}
          </button>
        )}
      </div>
    </form>
  );
}

/** From writing to what waits for an answer, or to nothing. */
function leave(field: HTMLTextAreaElement | null): void {
  const ask = document.querySelector<HTMLElement>(".dock .ask");
  if (ask) ask.focus();
  else field?.blur();
}

const NAMES = { send: "Send", steer: "Steer", queue: "Queue" } as const;
const TITLES = { send: "Send (Enter)", steer: "Send to the agent now, while it works (Enter)", queue: "Send when this run ends (Enter)" } as const;

function placeholder(state: HarnessState, connection: ConnectionStatus): string {
  if (connection === "waiting") return "Offline: messages are sent when the connection is back";
  if (state.status === "running") return !state.capabilities.submit ? "Steer…" : state.capabilities.steer ? "Steer or queue…" : "Queue…";
  return state.messages.length ? "Reply" : "What should the agent do?";
}

function ReadOnly({ state }: { state: HarnessState }) {
  const { sessionId } = useConversation();
  if (isOfHistory(sessionId)) return <StoredBar isLive={state.isLive} />;
  return (
    <div className="read-only faint">
      <span>{state.isLive ? "Another program runs this conversation; you can only watch it here." : "This run has ended."}</span>
      {!state.isLive && (
        <a className="button" href={continuingAddress(sessionId)}>
          <Icon name="steer" /> Continue in a new conversation
        </a>
      )}
      {state.isLive && state.capabilities.cancel && <StopButton queued={0} />}
    </div>
  );
}
