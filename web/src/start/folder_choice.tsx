import { useEffect, useState } from "react";
import { api, type FolderPage, type Project, type RequestFailed } from "../api.js";
import { shortPath } from "../inbox/facts.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";

const RECENT_MAX = 5;
const ROOTS_MAX = 12;

interface FolderChoiceProps {
  readonly projects: readonly Project[];
  readonly folder: string;
  readonly placeholder: string;
  readonly onChange: (folder: string) => void;
}

export function FolderChoice({ projects, folder, placeholder, onChange }: FolderChoiceProps) {
  const [isPicking, setPicking] = useState(false);
  const recent = projects.filter((one) => one.folder !== (folder || placeholder)).slice(0, RECENT_MAX);
  return (
    <div>
      <label className="label" htmlFor="start-folder">
        Folder
      </label>
      <div className="start-folder">
        <Icon name="folder" />
        <input id="start-folder" className="fixed" value={folder} placeholder={placeholder} onChange={(event) => onChange(event.target.value)} spellCheck={false} />
        <button type="button" className="quiet round" aria-expanded={isPicking} aria-label="Choose a folder" title="Choose a folder" onClick={() => setPicking(!isPicking)}>
          <Icon name="caret" />
        </button>
      </div>
      {isPicking && <Picker start={folder || placeholder} onChoose={(chosen) => (onChange(chosen), setPicking(false))} />}
      {recent.length > 0 && !isPicking && (
        <p className="start-recent">
          <span className="faint">Recent</span>
          {recent.map((one) => (
            <button key={one.folder} type="button" className="chip" title={inOneLine(one.folder, "code")} onClick={() => onChange(one.folder)}>
              {inOneLine(one.name, "code")}
            </button>
          ))}
        </p>
      )}
    </div>
  );
}

/** Only folders that the server shows: of the home, of the server and of recorded sessions. */
function Picker({ start, onChoose }: { start: string; onChoose: (folder: string) => void }) {
  const [path, setPath] = useState(start);
  const [page, setPage] = useState<FolderPage | null>(null);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    api.folders(path, abort.signal).then(
      (next) => (setPage(next), setProblem(null)),
      (error: RequestFailed) => !abort.signal.aborted && setProblem(error),
    );
    return () => abort.abort();
  }, [path]);
  return (
    <div className="start-picker" role="group" aria-label="Folders">
      <div className="start-picker-head">
        <button type="button" className="quiet small" disabled={!page?.above} onClick={() => page && setPath(page.above)} aria-label="The folder above">
          <Icon name="back" />
        </button>
        <code className="clipped">{inOneLine(page?.path ?? path, "code")}</code>
        <button type="button" className="button small" disabled={!page} onClick={() => page && onChoose(page.path)}>
          Use this folder
        </button>
      </div>
      {page && !page.above && (page.roots ?? []).length > 1 && (
        <p className="start-recent">
          <span className="faint">Elsewhere</span>
          {page.roots!
            .filter((root) => root !== page.path)
            .slice(0, ROOTS_MAX)
            .map((root) => (
              <button key={root} type="button" className="chip" onClick={() => setPath(root)}>
                {shortPath(root)}
              </button>
            ))}
        </p>
      )}
      {problem && (
        <p className="problem" role="alert">
          {problem.message} {problem.hint}
        </p>
      )}
      <ul>
        {page?.folders.map((one) => (
          <li key={one.path}>
            <button type="button" className="quiet" onClick={() => setPath(one.path)}>
              <Icon name="folder" /> {inOneLine(one.name, "code")} {one.isProject && <span className="faint small">git</span>}
            </button>
          </li>
        ))}
        {page && !page.folders.length && <li className="faint small">No folders in here.</li>}
        {page?.hasMore && <li className="faint small">There are more than are shown.</li>}
      </ul>
    </div>
  );
}
