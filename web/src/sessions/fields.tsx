/** How a conversation is run, as fields of a form. */

import { abilitiesOf } from "../start/abilities.js";
import { useId } from "react";
import type { PermissionMode } from "../../client/src/index.js";
import type { Agent, Model, Runner, ServerFacts } from "../api.js";
import { PERMISSION_MODES } from "./permission_modes.js";

/** The agent that uses a sandbox runner. */
const REMOTE = "remote";

interface AgentFieldProps {
  readonly agents: readonly Agent[];
  readonly runners: readonly Runner[];
  readonly agent: string;
  readonly runner: string;
  readonly onChange: (choice: { readonly agent: string; readonly runner?: string }) => void;
}

/** Agents of this machine, and the sandbox runners that are set up, each by its name. */
export function AgentField({ agents, runners, agent, runner, onChange }: AgentFieldProps) {
  const here = agents.filter(({ name }) => name !== REMOTE);
  const missing = here.filter((one) => !one.usable);
  const value = agent === REMOTE ? `${REMOTE}/${runner || (runners.length === 1 ? runners[0]!.name : "")}` : agent;
  const isKnown = here.some(({ name }) => name === value) || runners.some(({ name }) => `${REMOTE}/${name}` === value);
  const change = (chosen: string) => {
    const [name, place] = chosen.split("/", 2) as [string, string | undefined];
    onChange(place === undefined ? { agent: name } : { agent: name, runner: place });
  };
  return (
    <label>
      <span>Agent</span>
      <select aria-label="Agent" value={value} onChange={(event) => change(event.target.value)}>
        {!isKnown && <option value={value}>{value || "Default"}</option>}
        {here
          .filter((one) => one.usable)
          .map(({ name, title, version }) => (
            <option key={name} value={name}>
              {title || name} {version}
            </option>
          ))}
        {runners.length > 0 && (
          <optgroup label="Sandbox runners">
            {runners.map((one) => (
              <option key={one.name} value={`${REMOTE}/${one.name}`}>
                {one.name}: {agents.find(({ name }) => name === one.agent)?.title || one.agent}
              </option>
            ))}
          </optgroup>
        )}
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

/** `agent`: one that cannot be held to a mode is not offered it, but for the one that it has. */
export function PermissionField({ value, agent, onChange }: { value: string; agent?: Agent | undefined; onChange: (mode: PermissionMode) => void }) {
  const { modes, why } = abilitiesOf(agent);
  return (
    <label>
      <span>Permissions</span>
      <select aria-label="Permissions" value={value || "default"} onChange={(event) => onChange(event.target.value as PermissionMode)}>
        {PERMISSION_MODES.map(([id, name]) => (
          <option key={id} value={id} disabled={!modes.has(id)}>
            {name}
          </option>
        ))}
      </select>
      {why && <span className="faint small">{why}</span>}
    </label>
  );
}
