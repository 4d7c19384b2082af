/** The calls of its model that a gateway has recorded: a line each, and what was new in one when it is opened. */

import { useEffect, useState, type FormEvent } from "react";
import { api, RequestFailed, type CallTable } from "../api.js";
import { go, sessionAddress } from "../route.js";
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
      <Fork steps={Math.max(0, ...table.rows.filter((row) => row[CONVERSATION] === "main").map((row) => Number(row[STEP]) || 0))} />
    </section>
  );
}

/** The same run again, sealed: its recorded answers up to a step, and a model from there on. */
function Fork({ steps }: { readonly steps: number }) {
  const { sessionId } = useConversation();
  const [at, setAt] = useState(String(steps));
  const [model, setModel] = useState("");
  const [problem, setProblem] = useState("");
  const [isStarting, setStarting] = useState(false);
  const start = (event: FormEvent) => {
    event.preventDefault();
    setStarting(true);
    setProblem("");
    api.fork(sessionId, Number(at), model.trim()).then(
      ({ id }) => go(sessionAddress(id)),
      (failure: unknown) => {
        setStarting(false);
        setProblem(failure instanceof RequestFailed ? `${failure.message} ${failure.hint}` : String(failure));
      },
    );
  };
  return (
    <form className="small" onSubmit={start}>
      <label>
        Go on after step <input type="number" min={0} max={steps} required value={at} onChange={(event) => setAt(event.target.value)} />
      </label>{" "}
      <label>
        with <input value={model} placeholder="the same model, or provider/name" onChange={(event) => setModel(event.target.value)} />
      </label>{" "}
      <button type="submit" className="button small" disabled={isStarting}>
        Go on
      </button>
      {problem && <p className="problem">{revealed(problem)}</p>}
    </form>
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
        <pre className="small" tabIndex={0}>
          {text || "…"}
        </pre>
      </details>
    </li>
  );
}
