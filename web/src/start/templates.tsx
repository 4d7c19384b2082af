import { useEffect, useState } from "react";
import { api, type PromptCommand } from "../api.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";

/** Prompts to begin with: the user's, the project's, and some that come with Harness. */
export function Templates({ cwd, onChoose }: { cwd: string; onChoose: (text: string) => void }) {
  const [isOpen, setOpen] = useState(false);
  const [found, setFound] = useState<readonly PromptCommand[]>([]);
  useEffect(() => {
    if (!isOpen) return undefined;
    const abort = new AbortController();
    api.commands({ cwd, session: "", agent: "" }, abort.signal).then(({ commands }) => setFound(commands), () => undefined);
    return () => abort.abort();
  }, [isOpen, cwd]);
  return (
    <div className="start-templates">
      <button type="button" className="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="list" /> Templates <kbd>/</kbd>
      </button>
      {isOpen && (
        <ul className="suggestions" aria-label="Templates">
          {found.map(({ name, description, text }) => (
            <li key={name}>
              <button type="button" className="plain" onClick={() => (onChoose(text), setOpen(false))}>
                <span>{inOneLine(name, "code")}</span> <span className="faint clipped">{inOneLine(description)}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
