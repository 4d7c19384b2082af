import type { HarnessState } from "../../client/src/index.js";
import { useInboxRow } from "../inbox/inbox_store.js";
import { hasFailed } from "../inbox/row.js";
import { stateWords } from "../inbox/row_state.js";
import { inOneLine } from "../text/unseen.js";
import { useConversation } from "./context.js";

const PROMPT = "Continue where you stopped.";

/** A run that ended with its program, or for want of a login, and not by a person: it goes on with one click. */
export function ContinueBar({ state }: { state: HarnessState }) {
  const { client, sessionId } = useConversation();
  const row = useInboxRow(sessionId);
  if (row?.state === "parked" && state.capabilities.submit)
    return (
      <div className="continue-bar" role="status">
        <span>{stateWords(row)}</span>
        <button type="button" className="button small" onClick={() => client.cancel()}>
          Do not continue
        </button>
        <button type="button" className="button small primary" onClick={() => client.continueQueue()}>
          Continue now
        </button>
      </div>
    );
  const hint = row?.state === "failed" ? row.failure?.hint : "";
  if (!row || !hasFailed(row) || (row.state === "failed" && !hint) || state.status === "running" || state.followUps.length || !state.capabilities.submit) return null;
  return (
    <div className="continue-bar" role="status">
      <span>{hint ? `${inOneLine(hint)}. Type this in a terminal on the machine of the server; then:` : row.state === "lost" ? "Its process ended in the middle of its work." : "It was stopped in the middle of its work: the program that ran it was closed."}</span>
      <button type="button" className="button small primary" onClick={() => client.submit(PROMPT)}>
        Continue
      </button>
    </div>
  );
}
