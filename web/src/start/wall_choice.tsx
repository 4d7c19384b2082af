import type { Agent } from "../api.js";

interface WallChoiceProps {
  /** Undefined: the server does not say, or the agent runs elsewhere. */
  readonly wall: Agent["sandbox"];
  readonly isConfined: boolean;
  readonly onChange: (isConfined: boolean) => void;
}

const LANDLOCK = "Landlock: it can create nothing at the top of the folder, cannot commit, and can read your home.";

/** Whether an agent is confined to its folder, and by what. */
export function WallChoice({ wall, isConfined, onChange }: WallChoiceProps) {
  if (!wall) return null;
  const hint = wall.by ? (isConfined ? (wall.by === "landlock" ? LANDLOCK : `By ${wall.by}. It writes to the folder and its own files alone.`) : "") : wall.refusal;
  return (
    <div>
      <p className="label" id="start-wall">
        Confined
      </p>
      <div className="segments" role="group" aria-labelledby="start-wall">
        <button type="button" aria-pressed={!isConfined} onClick={() => onChange(false)}>
          No
        </button>
        <button type="button" aria-pressed={isConfined} disabled={!wall.by} onClick={() => onChange(true)}>
          To the folder
        </button>
      </div>
      {hint && <p className="start-hint">{hint}</p>}
    </div>
  );
}
