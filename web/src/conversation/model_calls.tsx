/** The calls of its model that a gateway has recorded: a line each, and what was new in one when it is opened. */

import { useEffect, useState } from "react";
import { api, RequestFailed, type CallTable } from "../api.js";
import { inOneLine, revealed } from "../text/unseen.js";
import { useConversation } from "./context.js";

const SHOWN_MAX = 200;
/** The columns of the table: number, step, conversation, model, sent (new), answer, tokens, took, from. */
const [NUMBER, STEP, CONVERSATION, MODEL, SENT, ANSWER] = [0, 1, 2, 3, 4, 5];

export function ModelCalls({ runs }: { readonly runs: number }) {
  const { sessionId } = useConversation();
  const [table, setTable] = useState<CallTable | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    // A server of an earlier version does not have it, and nothing is shown then.
    api.modelCalls(sessionId, stop.signal).then((found) => !stop.signal.aborted && setTable(found), () => undefined);
    return () => stop.abort();
  }, [sessionId, runs]);
  if (!table?.rows.length) return null;
  return (
    <section>
      <h2>
        Model calls <span className="faint">{table.rows.length}</span>
      </h2>
      <ol className="model-calls">
        {table.rows.slice(-SHOWN_MAX).map((row) => (
          <ModelCall key={row[NUMBER]} row={row} />
        ))}
      </ol>
      <p className="faint small">
        Go on from a step with another model: <code>harness replay {sessionId.slice(0, 12)} --at STEP --model PROVIDER/NAME</code>
      </p>
    </section>
  );
}

function ModelCall({ row }: { readonly row: readonly string[] }) {
  const { sessionId } = useConversation();
  const [text, setText] = useState("");
  const number = Number(row[NUMBER]);
  const open = (isOpen: boolean) => {
    if (!isOpen || text) return;
    api.modelCall(sessionId, number).then(
      ({ lines }) => setText(revealed(lines.join("\n"))),
      (problem: unknown) => setText(problem instanceof RequestFailed ? `${problem.message} ${problem.hint}` : String(problem)),
    );
  };
  return (
    <li>
      <details onToggle={(event) => open(event.currentTarget.open)}>
        <summary title={inOneLine(row[MODEL] ?? "")}>
          <span>{row[NUMBER]}</span>
          <span className="clipped">
            {inOneLine(row[CONVERSATION] ?? "")} {row[STEP] === "–" ? "" : `step ${row[STEP]}`}
          </span>
          <span className="faint">{row[SENT]}</span>
          <span className="faint">{inOneLine(row[ANSWER] ?? "")}</span>
        </summary>
        <pre className="small">{text || "…"}</pre>
      </details>
    </li>
  );
}
