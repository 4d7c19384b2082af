import type { ServerFacts } from "../api.js";
import { ModeField } from "../sessions/fields.js";

export interface MoreChosen {
  readonly mode: string;
  readonly maxTurns: string;
  readonly effort: string;
  readonly systemPrompt: string;
}

export const NO_MORE: MoreChosen = { mode: "", maxTurns: "", effort: "", systemPrompt: "" };

interface MoreOptionsProps {
  readonly modes: ServerFacts["modes"];
  readonly chosen: MoreChosen;
  readonly onChange: (chosen: MoreChosen) => void;
}

export function MoreOptions({ modes, chosen, onChange }: MoreOptionsProps) {
  return (
    <div className="start-more">
      <ModeField modes={modes} value={chosen.mode} onChange={(mode) => onChange({ ...chosen, mode })} />
      <label>
        <span>Turns at most</span>
        <input aria-label="Turns at most" inputMode="numeric" value={chosen.maxTurns} placeholder="no limit" onChange={(event) => onChange({ ...chosen, maxTurns: event.target.value.replace(/\D/g, "").slice(0, 6) })} />
      </label>
      <label>
        <span>Effort</span>
        <select aria-label="Effort" value={chosen.effort} onChange={(event) => onChange({ ...chosen, effort: event.target.value })}>
          {["", "low", "medium", "high"].map((effort) => (
            <option key={effort} value={effort}>
              {effort || "as usual"}
            </option>
          ))}
        </select>
      </label>
      <label className="wide">
        <span>System prompt</span>
        <textarea aria-label="System prompt" rows={2} value={chosen.systemPrompt} placeholder="the agent’s own" onChange={(event) => onChange({ ...chosen, systemPrompt: event.target.value })} />
      </label>
    </div>
  );
}
