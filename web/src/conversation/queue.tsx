import type { HarnessState } from "../../client/src/index.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { useConversation } from "./context.js";

/** Prompts that wait for their turn; while nothing runs, a person has to say that it has come. */
export function Queue({ state }: { state: HarnessState }) {
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
            <button type="button" className="quiet small" onClick={() => client.withdraw(id)} aria-label={`Remove from queue: ${inOneLine(text)}`} title="Remove from queue">
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}
