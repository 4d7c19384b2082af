/** The confirmation of a revert: what goes, what stays, what cannot; then a way to undo it. */

import { useEffect, useState } from "react";
import { RequestFailed } from "../api.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { changesApi, type RevertedFile } from "./changes_api.js";
import { effectOf } from "./effects.js";

export interface RevertTarget {
  readonly scope: string;
  /** Empty: all files of the scope. */
  readonly paths: readonly string[];
  /** “file” or “turn 3”: the word of the buttons. */
  readonly name: string;
}

interface RevertNoticeProps {
  readonly sessionId: string;
  readonly target: RevertTarget;
  readonly onDone: (undoId: string, files: readonly RevertedFile[]) => void;
  readonly onCancel: () => void;
}

export function RevertNotice({ sessionId, target, onDone, onCancel }: RevertNoticeProps) {
  const [plan, setPlan] = useState<readonly RevertedFile[] | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    changesApi.revert(sessionId, target.scope, target.paths, {}, true).then(
      ({ files }) => setPlan(files),
      (error: unknown) => setProblem(wordsOf(error)),
    );
  }, [sessionId, target]);
  const possible = plan?.filter(({ action }) => action !== "refuse") ?? [];
  const carryOut = () => {
    setBusy(true);
    const expect = Object.fromEntries((plan ?? []).map(({ path, digest }) => [path, digest]));
    changesApi.revert(sessionId, target.scope, target.paths, expect, false).then(
      (answer) => onDone(answer.undoId, answer.files.filter(({ action }) => action !== "refuse")),
      (error: unknown) => (setBusy(false), setProblem(wordsOf(error))),
    );
  };
  return (
    <section className="changes-confirm" aria-label={`Revert ${target.name}`} onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), onCancel())}>
      <div className="changes-notice" data-warns role="status">
        <Icon name="warning" />
        <div>
          {problem ? <p>{inOneLine(problem)}</p> : plan ? <Effects plan={plan} target={target} /> : <p>Looking what would go back…</p>}
        </div>
      </div>
      <div className="changes-row">
        <button type="button" className="button small stop" disabled={!possible.length || isBusy || !!problem} onClick={carryOut} autoFocus>
          Revert {target.name}
        </button>
        <button type="button" className="button small" onClick={onCancel}>
          Keep it
        </button>
      </div>
    </section>
  );
}

function Effects({ plan, target }: { plan: readonly RevertedFile[]; target: RevertTarget }) {
  const isOne = target.paths.length === 1;
  return (
    <>
      <p>
        <b>
          Revert <code>{isOne ? inOneLine(target.paths[0]!, "code") : target.name}</code>?
        </b>{" "}
        {isOne && plan[0] ? effectOf(plan[0]) : ""} The present {isOne ? "file is" : "files are"} saved first, so this can be undone.
      </p>
      {!isOne && (
        <ul className="changes-effects">
          {plan.map((file) => (
            <li key={file.path}>
              <code>{inOneLine(file.path, "code")}</code>: {effectOf(file)}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

export function wordsOf(error: unknown): string {
  if (error instanceof RequestFailed) return error.hint ? `${error.message}; ${error.hint}` : error.message;
  return String(error);
}

interface DoneNoticeProps {
  readonly text: string;
  readonly onUndo: (() => void) | null;
  readonly onClose: () => void;
}

export function DoneNotice({ text, onUndo, onClose }: DoneNoticeProps) {
  return (
    <div className="changes-done" role="status">
      <Icon name="check" />
      <span>{inOneLine(text)}</span>
      {onUndo && (
        <button type="button" className="button small" onClick={onUndo}>
          Undo
        </button>
      )}
      <button type="button" className="quiet small" onClick={onClose} aria-label="Dismiss">
        <Icon name="close" />
      </button>
    </div>
  );
}
