/** The turns of a conversation with a button to undo each: what its commands did is taken back, too. */

import { useEffect, useState } from "react";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { countOf } from "./amounts.js";
import { changesApi, type UndoableTurn, type UndoAnswer, type UndoFile } from "./changes_api.js";
import { wordsOf } from "./revert_notice.js";

interface TurnUndoProps {
  readonly sessionId: string;
  /** Changes when the conversation may have changed a file. */
  readonly revision: string;
  readonly onDone: (text: string) => void;
}

export interface Wish {
  readonly verb: "undo" | "redo";
  /** A turn, or several: `3..7`. */
  readonly turn: string;
  /** In words: `turn 3`. */
  readonly name: string;
}

export function TurnUndo({ sessionId, revision, onDone }: TurnUndoProps) {
  const [turns, setTurns] = useState<readonly UndoableTurn[]>([]);
  const [wish, setWish] = useState<Wish | null>(null);
  const [count, setCount] = useState(0);
  useEffect(() => {
    const aborter = new AbortController();
    changesApi.turns(sessionId, aborter.signal).then(
      (answer) => setTurns(answer.turns.filter(({ state }) => state === "undoable" || state === "undone")),
      () => undefined, // without a record there is nothing to offer
    );
    return () => aborter.abort();
  }, [sessionId, revision, count]);
  if (!turns.length) return null;
  const lastUndone = turns.findLast(({ state }) => state === "undone");
  return (
    <section className="turn-undo" aria-label="Undo a turn">
      <ul>
        {[...turns].reverse().map((turn) => (
          <li key={turn.id} className="changes-row">
            <span className="clipped">
              {turn.number} · {inOneLine(turn.title)}
            </span>
            <span className="faint small">{countOf(turn.files, "file")}</span>
            {turn.state === "undoable" ? (
              <button type="button" className="quiet small changes-push" onClick={() => setWish({ verb: "undo", turn: turn.id, name: `turn ${turn.number}` })}>
                <Icon name="undo" /> Undo turn {turn.number}…
              </button>
            ) : turn === lastUndone ? (
              <button type="button" className="quiet small changes-push" onClick={() => setWish({ verb: "redo", turn: turn.id, name: `turn ${turn.number}` })}>
                Redo turn {turn.number}…
              </button>
            ) : (
              <span className="faint small changes-push">undone</span>
            )}
          </li>
        ))}
      </ul>
      {wish && (
        <UndoNotice
          key={`${wish.verb} ${wish.turn}`}
          sessionId={sessionId}
          wish={wish}
          onCancel={() => setWish(null)}
          onDone={(text) => (setWish(null), setCount(count + 1), onDone(text))}
        />
      )}
    </section>
  );
}

interface UndoNoticeProps {
  readonly sessionId: string;
  readonly wish: Wish;
  readonly onDone: (text: string) => void;
  readonly onCancel: () => void;
}

export function UndoNotice({ sessionId, wish, onDone, onCancel }: UndoNoticeProps) {
  const { verb, turn, name: turnName } = wish;
  const [plan, setPlan] = useState<UndoAnswer | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const act = (expect: string | null) => (verb === "undo" ? changesApi.undoTurn(sessionId, turn, expect) : changesApi.redoTurn(sessionId, expect));
  useEffect(() => {
    act(null).then(setPlan, (error: unknown) => setProblem(wordsOf(error)));
  }, [sessionId, verb, turn]);
  const possible = plan?.files.filter((file) => file.act !== "keep").length ?? 0;
  const carryOut = () => {
    setBusy(true);
    act(plan?.digest ?? "").then(
      (answer) => {
        const kept = answer.files.filter((file) => file.act === "keep").length;
        const files = countOf(answer.files.length - kept, "file");
        onDone(`${turnName[0]!.toUpperCase()}${turnName.slice(1)}: ${files} ${verb === "undo" ? "taken back" : "brought back"}${kept ? `, ${kept} kept` : ""}.`);
      },
      (error: unknown) => (setBusy(false), setProblem(wordsOf(error))),
    );
  };
  const name = `${verb === "undo" ? "Undo" : "Redo"} ${turnName}`;
  return (
    <section className="changes-confirm" aria-label={name} onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), onCancel())}>
      <div className="changes-notice" data-warns role="status">
        <Icon name="warning" />
        <div>{problem ? <p>{inOneLine(problem)}</p> : plan ? <Plan plan={plan} name={name} /> : <p>Looking what would change…</p>}</div>
      </div>
      <div className="changes-row">
        <button type="button" className="button small stop" disabled={!possible || isBusy || !!problem} onClick={carryOut} autoFocus>
          {name}
        </button>
        <button type="button" className="button small" onClick={onCancel}>
          Keep it
        </button>
      </div>
    </section>
  );
}

function Plan({ plan, name }: { plan: UndoAnswer; name: string }) {
  return (
    <>
      <p>
        <b>{name}?</b> What you have changed yourself stays. This can be undone in turn.
      </p>
      <ul className="changes-effects">
        {plan.files.map((file) => (
          <li key={file.path}>
            <code>{inOneLine(file.path, "code")}</code>: {wordsFor(file)}
          </li>
        ))}
      </ul>
      {plan.notCovered.length > 0 && <p className="faint">Not covered: {inOneLine(plan.notCovered.slice(0, 5).join(", "))}</p>}
      {plan.git && <p className="faint">git: {inOneLine(plan.git)}</p>}
    </>
  );
}

function wordsFor(file: UndoFile): string {
  if (file.act === "keep") return `kept: ${inOneLine(file.why)}`;
  const words: Readonly<Record<Exclude<UndoFile["act"], "keep">, string>> = {
    back: file.lines ? countOf(file.lines, "line") + " back" : "as it was",
    create: "comes back",
    remove: "removed",
    mode: `mode ${file.mode}`,
    merge: `${countOf(file.lines, "line")} back, what was changed since stays`,
  };
  return words[file.act];
}
