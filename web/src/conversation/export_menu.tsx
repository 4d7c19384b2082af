/** A conversation as a document: one file that opens anywhere, with secrets masked. */

import { useState } from "react";
import { api, type RequestFailed } from "../api.js";
import { Icon } from "../shell/icon.js";

const LEVELS = [
  ["all", "Everything"],
  ["calls", "Messages and calls"],
  ["talk", "Only messages"],
] as const;

export function ExportMenu({ sessionId }: { readonly sessionId: string }) {
  const [format, setFormat] = useState<"html" | "markdown">("html");
  const [hidesNames, setHidesNames] = useState(false);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  const [isBusy, setBusy] = useState(false);
  const save = (level: string) => {
    setBusy(true);
    setProblem(null);
    api
      .exported(sessionId, { format, level, hideNames: String(hidesNames) })
      .then(({ name, blob }) => download(name, blob), setProblem)
      .finally(() => setBusy(false));
  };
  return (
    <details className="export">
      <summary className="button small">
        <Icon name="down" isSmall /> Export
      </summary>
      <div className="export-choices">
        <label>
          <input type="radio" name="export-format" checked={format === "html"} onChange={() => setFormat("html")} /> HTML, one file
        </label>
        <label>
          <input type="radio" name="export-format" checked={format === "markdown"} onChange={() => setFormat("markdown")} /> Markdown
        </label>
        <label>
          <input type="checkbox" checked={hidesNames} onChange={(event) => setHidesNames(event.target.checked)} /> Hide my name and home
        </label>
        <span className="export-buttons">
          {LEVELS.map(([level, words]) => (
            <button key={level} type="button" className="button small" disabled={isBusy} onClick={() => save(level)}>
              {words}
            </button>
          ))}
        </span>
        <p className="faint small">Secrets are masked.</p>
        {problem && (
          <p className="bad small" role="alert">
            {problem.message} {problem.hint}
          </p>
        )}
      </div>
    </details>
  );
}

function download(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
