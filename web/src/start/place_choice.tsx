import { inOneLine } from "../text/unseen.js";
import type { Project } from "../api.js";

export type Place = "folder" | "worktree" | "branch";

const PLACES: readonly (readonly [Place, string])[] = [
  ["folder", "The folder itself"],
  ["worktree", "A new worktree"],
  ["branch", "A new branch"],
];

interface PlaceChoiceProps {
  readonly project: Project | null;
  readonly place: Place;
  readonly branch: string;
  readonly onPlace: (place: Place) => void;
  readonly onBranch: (branch: string) => void;
}

export function PlaceChoice({ project, place, branch, onPlace, onBranch }: PlaceChoiceProps) {
  const canBranch = !!project?.isRepository;
  return (
    <div>
      <p className="label" id="start-place">
        Work in
      </p>
      <div className="segments" role="group" aria-labelledby="start-place">
        {PLACES.map(([id, name]) => (
          <button key={id} type="button" aria-pressed={place === id} disabled={id !== "folder" && !canBranch} onClick={() => onPlace(id)}>
            {name}
          </button>
        ))}
      </div>
      {place !== "folder" && (
        <label className="start-branch">
          <span className="faint">Branch</span>
          <input className="fixed" aria-label="Branch" value={branch} onChange={(event) => onBranch(event.target.value)} spellCheck={false} />
          {project?.branch && (
            <span className="faint">
              from <code>{inOneLine(project.branch, "code")}</code>
            </span>
          )}
        </label>
      )}
      <p className="start-hint">{hintOf(project, place)}</p>
    </div>
  );
}

function hintOf(project: Project | null, place: Place): string {
  if (!project) return "";
  const others = project.liveAgents.length;
  const busy = others === 0 ? "" : others === 1 ? "Another agent works in this folder" : `${others} other agents work in this folder`;
  if (!project.isRepository) return busy ? `${busy}, and it is no git repository: there can be no worktree.` : "This folder is no git repository.";
  if (place === "worktree") return [busy && `${busy}, so a worktree is proposed.`, project.changed ? `${counted(project.changed)} not committed: they stay here.` : ""].filter(Boolean).join(" ");
  if (busy) return `${busy}: a worktree keeps them apart.`;
  return project.changed ? `${counted(project.changed)} not committed.` : "";
}

function counted(files: number): string {
  return files === 1 ? "1 file is" : `${files} files are`;
}
