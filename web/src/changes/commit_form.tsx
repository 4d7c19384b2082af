/** Ticked files with a message. Nothing is pushed anywhere. */

import { useEffect, useRef, useState, type FormEvent } from "react";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { countOf, FilePath } from "./amounts.js";
import { changesApi, type ChangeList } from "./changes_api.js";
import { wordsOf } from "./revert_notice.js";

interface CommitFormProps {
  readonly sessionId: string;
  readonly list: ChangeList;
  readonly onDone: (text: string) => void;
}

export function CommitForm({ sessionId, list, onDone }: CommitFormProps) {
  const [message, setMessage] = useState(list.proposedMessage);
  const [left, setLeft] = useState<ReadonlySet<string>>(() => new Set(list.files.filter(({ alsoChangedBy }) => alsoChangedBy === "you").map(({ path }) => path)));
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const { git } = list;
  const files = list.files.filter(({ path, isReverted }) => !path.startsWith("/") && !isReverted);
  const chosen = files.filter(({ path }) => !left.has(path));
  if (!git) return <p className="faint">{list.whyNoGit ? inOneLine(list.whyNoGit) : "This folder is in no git repository."}</p>;
  const toggle = (path: string) => setLeft(new Set(left.has(path) ? [...left].filter((one) => one !== path) : [...left, path]));
  const commit = (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    const expect = Object.fromEntries(chosen.map(({ path, digest }) => [path, digest]));
    // A file with another name is gone under the old one.
    const paths = chosen.flatMap(({ path, oldPath }) => (oldPath && !oldPath.startsWith("/") ? [oldPath, path] : [path]));
    changesApi.commit(sessionId, paths, message, git.head, expect).then(
      (made) => {
        setBusy(false);
        const hooks = made.hooksSkipped ? " The hooks of the repository were not run." : "";
        onDone(`Committed ${countOf(made.files, "file")} as ${made.commit.slice(0, 7)}${made.branch && ` on ${made.branch}`}.${hooks}`);
      },
      (error: unknown) => (setBusy(false), setProblem(wordsOf(error))),
    );
  };
  return (
    <form className="changes-commit" onSubmit={commit}>
      <label>
        <span className="changes-label">Message</span>
        <textarea rows={5} value={message} onChange={(event) => setMessage(event.target.value)} required />
        <span className="faint small">Proposed from the conversation. Nothing is sent anywhere.</span>
      </label>
      <fieldset>
        <legend className="changes-label">
          Files{" "}
          <span className="faint">
            {chosen.length} of {files.length}
          </span>
        </legend>
        <ul className="changes-ticks">
          {files.map(({ path }) => (
            <li key={path}>
              <label>
                <input type="checkbox" checked={!left.has(path)} onChange={() => toggle(path)} />
                <FilePath path={inOneLine(path, "code")} />
              </label>
            </li>
          ))}
        </ul>
      </fieldset>
      <p className="changes-notice">
        <Icon name="branch" />
        <span>
          {git.branch ? (
            <>
              On branch <code>{inOneLine(git.branch, "code")}</code>.{" "}
            </>
          ) : (
            "No branch is checked out. "
          )}
          Your staged files are left as they are.{git.hasHooks ? " The hooks of the repository are not run." : ""}
        </span>
      </p>
      {list.isRunning && (
        <p className="changes-notice" data-warns>
          <Icon name="warning" />
          <span>The agent still runs. What it changes after this is not in the commit.</span>
        </p>
      )}
      {problem && (
        <p className="changes-notice" data-warns role="alert">
          <Icon name="warning" />
          <span>{inOneLine(problem)}</span>
        </p>
      )}
      <div className="changes-commit-buttons">
        <button className="button primary" disabled={!chosen.length || !message.trim() || isBusy}>
          <Icon name="commit" /> Commit {countOf(chosen.length, "file")}
        </button>
        <CopyPatch sessionId={sessionId} scope={list.scope} paths={chosen.map(({ path }) => path)} />
      </div>
    </form>
  );
}

export function CopyPatch({ sessionId, scope, paths }: { sessionId: string; scope: string; paths: readonly string[] }) {
  const [copied, setCopied] = useState("");
  const copy = () =>
    changesApi.patch(sessionId, scope, paths).then(
      async ({ patch, missing }) => {
        await navigator.clipboard.writeText(patch);
        setCopied(missing.length ? `Copied, without ${countOf(missing.length, "file")} whose text is not known` : "Copied");
      },
      (error: unknown) => setCopied(wordsOf(error)),
    );
  return (
    <button type="button" className="button" onClick={() => void copy()}>
      {copied || "Copy as patch"}
    </button>
  );
}

/** The same over the page, where there is no room beside it. */
export function CommitDialog(props: CommitFormProps & { readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} className="keys changes-dialog" onClose={props.onClose} aria-label="Commit">
      <div className="changes-row">
        <h2>Commit</h2>
        <button type="button" className="quiet round changes-push" onClick={props.onClose} aria-label="Close">
          <Icon name="close" />
        </button>
      </div>
      <CommitForm {...props} />
    </dialog>
  );
}
