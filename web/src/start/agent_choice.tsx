import { useState } from "react";
import type { Agent, Runner } from "../api.js";
import { AgentBadge } from "../inbox/agent_badge.js";
import { CopyButton } from "../shell/copy_button.js";
import { inOneLine } from "../text/unseen.js";
import { abilitiesOf } from "./abilities.js";

/** The agent that uses a sandbox runner. */
export const REMOTE = "remote";

export interface AgentChosen {
  readonly agent: string;
  readonly runner: string;
}

interface AgentChoiceProps extends AgentChosen {
  readonly agents: readonly Agent[];
  readonly runners: readonly Runner[];
  readonly onChange: (chosen: AgentChosen) => void;
}

/** Agents of this machine with what they can do, then the sandbox runners by name. */
export function AgentChoice({ agents, runners, agent, runner, onChange }: AgentChoiceProps) {
  const usable = agents.filter(({ name, usable: isUsable }) => isUsable && name !== REMOTE);
  return (
    <fieldset className="start-agents">
      <legend className="label">Agent</legend>
      {usable.map((one) => (
        <Choice key={one.name} agent={one} title={one.title || one.name} note={one.version} isChosen={agent === one.name} onChoose={() => onChange({ agent: one.name, runner: "" })} />
      ))}
      {runners.map((one) => (
        <Choice
          key={`runner ${one.name}`}
          agent={agents.find(({ name }) => name === one.agent)}
          title={`${one.name}: ${agents.find(({ name }) => name === one.agent)?.title || one.agent}`}
          note="sandbox runner"
          isChosen={agent === REMOTE && runner === one.name}
          onChoose={() => onChange({ agent: REMOTE, runner: one.name })}
        />
      ))}
      <Missing agents={agents.filter((one) => !one.usable && one.install)} />
    </fieldset>
  );
}

interface ChoiceProps {
  readonly agent: Agent | undefined;
  readonly title: string;
  readonly note: string;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
}

function Choice({ agent, title, note, isChosen, onChoose }: ChoiceProps) {
  const { words, canAsk } = abilitiesOf(agent);
  return (
    <label className="start-agent" data-on={isChosen || undefined} data-silent={!canAsk || undefined}>
      <input type="radio" name="agent" className="unseen" checked={isChosen} onChange={onChoose} aria-label={`${title} ${note}`.trim()} />
      <AgentBadge agentName={agent?.name ?? ""} title={agent?.title ?? title} />
      <span>
        <span className="start-agent-name">{inOneLine(title)}</span> <span className="faint small">{inOneLine(note)}</span>
        <span className={canAsk ? "faint start-agent-can" : "start-agent-can waits"}>{words}</span>
      </span>
    </label>
  );
}

function Missing({ agents }: { agents: readonly Agent[] }) {
  const [isOpen, setOpen] = useState(false);
  if (!agents.length) return null;
  return (
    <>
      <p className="start-hint">
        {agents.length} more {agents.length === 1 ? "is" : "are"} known and not installed.{" "}
        <button type="button" className="link" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Hide" : "Show"}
        </button>
      </p>
      {isOpen && (
        <ul className="start-missing">
          {agents.map(({ name, title, install }) => (
            <li key={name}>
              <span>{title || name}</span>
              <code className="clipped" title={install}>
                {install}
              </code>
              <CopyButton text={install} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
