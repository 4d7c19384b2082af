import { useState } from "react";
import { Icon } from "../shell/icon.js";
import { useKeys } from "../shell/keys.js";
import { useConversation } from "./context.js";

/** With messages in the queue, what becomes of them is asked first. */
export function StopButton({ queued }: { queued: number }) {
  const { client } = useConversation();
  const [isAsking, setAsking] = useState(false);
  const begin = () => (queued ? setAsking(true) : client.cancel());
  useKeys({ x: begin });
  if (!isAsking || !queued)
    return (
      <button type="button" className="button stop" onClick={begin} title="Stop (x)">
        <Icon name="stop" /> Stop
      </button>
    );
  const stop = (queue: "keep" | "clear") => {
    setAsking(false);
    client.cancel(queue);
  };
  const messages = queued === 1 ? "the queued message" : `${queued} queued messages`;
  return (
    <span className="stop-choice" role="group" aria-label={`Stop, and ${messages}`} onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), setAsking(false))}>
      <button type="button" className="button" autoFocus onClick={() => stop("keep")} title={`Stop, and keep ${messages}`}>
        Stop, keep queue
      </button>
      <button type="button" className="button stop" onClick={() => stop("clear")} title={`Stop, and clear ${messages}`}>
        Stop, clear queue
      </button>
      <button type="button" className="quiet small" onClick={() => setAsking(false)} aria-label="Do not stop">
        <Icon name="close" />
      </button>
    </span>
  );
}
