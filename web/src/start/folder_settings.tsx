/** Settings that a folder brings for an agent: what would be started by them, and whether they are trusted. */

import { useEffect, useState } from "react";
import { api, type FolderSettings, type RequestFailed } from "../api.js";
import { inOneLine } from "../text/unseen.js";

const PAUSE_MS = 250;

export interface BroughtSettings {
  /** Something that nobody has trusted yet; null: nothing that has to be asked about. */
  readonly asks: FolderSettings | null;
  readonly isLeftOut: boolean;
  readonly problem: RequestFailed | null;
  readonly trust: () => void;
  readonly leaveOut: () => void;
}

export function useFolderSettings(cwd: string, agent: string): BroughtSettings {
  const [found, setFound] = useState<FolderSettings | null>(null);
  const [isLeftOut, setLeftOut] = useState(false);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  useEffect(() => {
    setFound(null);
    setLeftOut(false);
    setProblem(null);
    if (!cwd || !agent) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(() => api.folderSettings(cwd, agent, abort.signal).then(setFound, () => undefined), PAUSE_MS); // without an answer they are left out
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [cwd, agent]);
  const asks = found && (found.state === "new" || found.state === "changed") ? found : null;
  const trust = () => {
    if (asks) api.trustFolder({ cwd, agent, digest: asks.digest }).then(setFound, setProblem);
  };
  return { asks, isLeftOut, problem, trust, leaveOut: () => setLeftOut(true) };
}

export function FolderSettingsNote({ brought }: { readonly brought: BroughtSettings }) {
  const { asks, isLeftOut, problem } = brought;
  if (!asks) return null;
  return (
    <section className="handover" aria-label="Settings of this folder">
      <p>
        <b>{asks.state === "changed" ? "The settings of this folder have changed since you trusted them" : "This folder brings settings that the agent would obey"}</b>:
      </p>
      <ul>
        {asks.sentences.map((line) => (
          <li key={line}>{inOneLine(line, "code")}</li>
        ))}
      </ul>
      {asks.changes.length > 0 && <p className="faint">Changed: {asks.changes.map((line) => inOneLine(line, "code")).join(", ")}</p>}
      <p>
        <button type="button" className="button" onClick={brought.trust}>
          Trust this content
        </button>{" "}
        <button type="button" className="button" aria-pressed={isLeftOut} onClick={brought.leaveOut}>
          Run without these settings
        </button>
      </p>
      {problem && (
        <p className="problem" role="alert">
          {problem.message} {problem.hint}
        </p>
      )}
    </section>
  );
}
