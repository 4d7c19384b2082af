/** What a call gave back: the end of it while it runs, the beginning when it is done, all of it when asked. */

import { memo, useState } from "react";
import { useOpenState } from "../conversation/open_state.js";
import type { HarnessToolCall } from "../../client/src/index.js";
import { api, RequestFailed } from "../api.js";
import { count } from "../amounts.js";
import { Revealed } from "../text/revealed.js";
import { useConversation } from "../conversation/context.js";

const SHOWN_MAX = 6_000;
/** Colours and cursor moves of a terminal. */
const TERMINAL_ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])/g;

export const Output = memo(function Output({ call }: { call: HarnessToolCall }) {
  const { sessionId } = useConversation();
  const [full, setFull] = useOpenState<string | null>(`output ${call.id}`, null);
  const [problem, setProblem] = useState("");
  const text = (full ?? call.output ?? "").replace(TERMINAL_ESCAPES, "").replaceAll("\r\n", "\n");
  if (!text) return null;
  const length = Math.max(call.outputLength ?? 0, text.length);
  const isShortened = full === null && length > SHOWN_MAX;
  const shown = !isShortened ? text : call.status === "running" ? text.slice(-SHOWN_MAX) : text.slice(0, SHOWN_MAX);
  const showAll = () => {
    if ((call.outputLength ?? 0) <= (call.output ?? "").length) setFull(call.output ?? "");
    else
      api.call(sessionId, call.id).then(
        ({ output }) => setFull(output),
        (error: RequestFailed) => setProblem(error.message),
      );
  };
  return (
    <div className="output">
      <pre tabIndex={0} aria-label="Output">
        <Revealed text={shown} kind="speech" />
      </pre>
      {isShortened && (
        <button type="button" className="quiet small" onClick={showAll}>
          Show all {count(length)} characters
        </button>
      )}
      {problem && <p className="problem">{problem}</p>}
    </div>
  );
});
