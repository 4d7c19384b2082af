/** How a conversation is run, as fields of a form. */

import { useId } from "react";
import type { PermissionMode } from "../../client/src/index.js";
import type { Agent, Model, ServerFacts } from "../api.js";
import { PERMISSION_MODES } from "./permission_modes.js";

export function AgentField({ agents, value, onChange }: { agents: readonly Agent[]; value: string; onChange: (name: string) => void }) {
  const usable = agents.filter((agent) => agent.usable);
  const missing = agents.filter((agent) => !agent.usable);
  const known = agents.some((agent) => agent.name === value);
  return (
    <label>
      <span>Agent</span>
      <select aria-label="Agent" value={value} onChange={(event) => onChange(event.target.value)}>
        {!known && <option value={value}>{value || "Default"}</option>}
        {usable.map(({ name, title, version }) => (
          <option key={name} value={name}>
            {title || name} {version}
          </option>
        ))}
        {missing.length > 0 && (
          <optgroup label="Not installed">
            {missing.map(({ name, title }) => (
              <option key={name} value={name} disabled>
                {title || name}
              </option>
            ))}
          </optgroup>
        )}
      </select>
    </label>
  );
}

interface ModelFieldProps {
  readonly models: readonly Model[];
  readonly placeholder: string;
  readonly value: string;
  readonly onChange: (model: string) => void;
  /** The field was left, or Enter pressed. */
  readonly onDone?: () => void;
}

export function ModelField({ models, placeholder, value, onChange, onDone }: ModelFieldProps) {
  const list = useId();
  return (
    <label>
      <span>Model</span>
      <input
        aria-label="Model"
        list={list}
        value={value}
        placeholder={placeholder}
        onChange={(event) => onChange(event.target.value)}
        onBlur={onDone}
        onKeyDown={(event) => event.key === "Enter" && onDone && (event.preventDefault(), onDone())}
        spellCheck={false}
      />
      <datalist id={list}>
        {models
          .filter((model) => model.usable)
          .map(({ id, description }) => (
            <option key={id} value={id}>
              {description}
            </option>
          ))}
      </datalist>
    </label>
  );
}

interface ModeFieldProps {
  readonly modes: ServerFacts["modes"];
  readonly value: string;
  readonly onChange: (mode: string) => void;
  readonly isDisabled?: boolean;
}

export function ModeField({ modes, value, onChange, isDisabled = false }: ModeFieldProps) {
  if (!modes.length) return null;
  return (
    <label>
      <span>Mode</span>
      <select aria-label="Mode" value={value || modes[0]!.id} onChange={(event) => onChange(event.target.value)} disabled={isDisabled}>
        {modes.map(({ id, name }) => (
          <option key={id} value={id}>
            {name || id}
          </option>
        ))}
      </select>
    </label>
  );
}

export function PermissionField({ value, onChange }: { value: string; onChange: (mode: PermissionMode) => void }) {
  return (
    <label>
      <span>Permissions</span>
      <select aria-label="Permissions" value={value || "default"} onChange={(event) => onChange(event.target.value as PermissionMode)}>
        {PERMISSION_MODES.map(([id, name]) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
