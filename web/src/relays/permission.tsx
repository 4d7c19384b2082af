import { useMemo, useState } from "react";
import type { HarnessRelay, HarnessToolCall, JSONValue } from "../../client/src/index.js";
import { useConversation } from "../conversation/context.js";
import { DiffView } from "../tools/diff_view.js";
import { changeOf } from "../tools/change.js";
import { commandIn, textIn } from "./payload.js";
import { useSent } from "./use_sent.js";

export function Permission({ relay }: { relay: HarnessRelay }) {
  const { client } = useConversation();
  const [isDenying, setDenying] = useState(false);
  const [isSent, setSent] = useSent();
  const [reason, setReason] = useState("");
  const answer = (send: () => void) => {
    setSent(true);
    send();
  };
  return (
    <div>
      <p className="ask-title">{relay.question || `Allow ${relay.toolName || "this"}?`}</p>
      <Preview relay={relay} />
      {isDenying ? (
        <form
          className="ask-buttons"
          onSubmit={(event) => (event.preventDefault(), answer(() => client.deny(relay.id, reason.trim())))}
        >
          <input
            autoFocus
            value={reason}
            placeholder="Why not? The agent reads it (may be empty)"
            aria-label="Reason"
            onChange={(event) => setReason(event.target.value)}
            onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), setDenying(false))}
          />
          <button type="submit" className="button stop" disabled={isSent}>
            Deny
          </button>
          <button type="button" className="button" onClick={() => setDenying(false)}>
            Back
          </button>
        </form>
      ) : (
        <div className="ask-buttons">
          <button type="button" className="button primary" disabled={isSent} onClick={() => answer(() => client.approve(relay.id))}>
            Allow once
          </button>
          <button
            type="button"
            className="button"
            disabled={isSent}
            onClick={() => answer(() => client.approve(relay.id, { always: true }))}
          >
            Always allow
          </button>
          <button type="button" className="button" disabled={isSent} onClick={() => setDenying(true)}>
            Deny…
          </button>
        </div>
      )}
    </div>
  );
}

/** What it is that would happen: the command, the change, or else the arguments. */
function Preview({ relay }: { relay: HarnessRelay }) {
  const change = useMemo(() => changeOf(asCall(relay)), [relay]);
  const command = commandIn(relay.input);
  if (command) return <pre className="command">{command}</pre>;
  const path = textIn(relay.input, ["path", "file_path", "filePath", "filename"]);
  return (
    <>
      {path && <p className="fixed">{path}</p>}
      {change.length > 0 ? <DiffView lines={change} /> : !path && <RawInput input={relay.input} />}
    </>
  );
}

function RawInput({ input }: { input: JSONValue }) {
  if (input === null || (typeof input === "object" && !Object.keys(input).length)) return null;
  return <pre className="arguments">{typeof input === "string" ? input : JSON.stringify(input, null, 2)}</pre>;
}

function asCall(relay: HarnessRelay): HarnessToolCall {
  return { id: relay.callId, name: relay.toolName, status: "running", input: relay.input };
}
