import type { PermissionMode } from "../../client/src/index.js";
import type { Abilities } from "./abilities.js";

const MODES: readonly (readonly [PermissionMode, string])[] = [
  ["default", "Before changes"],
  ["acceptEdits", "Before commands"],
  ["fullAuto", "Never"],
  ["readOnly", "Read only"],
];

interface AsksChoiceProps {
  readonly abilities: Abilities;
  readonly mode: PermissionMode;
  readonly onChange: (mode: PermissionMode) => void;
}

/** What an agent may do without asking. */
export function AsksChoice({ abilities, mode, onChange }: AsksChoiceProps) {
  return (
    <div>
      <p className="label" id="start-asks">
        Asks you
      </p>
      <div className="segments" role="group" aria-labelledby="start-asks">
        {MODES.map(([id, name]) => (
          <button key={id} type="button" aria-pressed={mode === id} disabled={!abilities.modes.has(id)} onClick={() => onChange(id)}>
            {name}
          </button>
        ))}
      </div>
      {!abilities.canAsk && <p className="start-hint waits">{abilities.why || `This agent ${abilities.words}.`}</p>}
    </div>
  );
}
