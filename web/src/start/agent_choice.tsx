import { useState } from "react";
import type { PermissionMode } from "../../client/src/index.js";
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
  readonly areKnown: boolean;
  /** The agents that are started besides it; null: one alone is started. */
  readonly others: ReadonlySet<string> | null;
  readonly onOther: (agent: string) => void;
  readonly mode: PermissionMode;
  readonly runners: readonly Runner[];
  readonly onChange: (chosen: AgentChosen) => void;
}

/** Agents of this machine with what they can do, then the sandbox runners by name. */
export function AgentChoice({ agents, areKnown, runners, agent, runner, others, mode, onChange, onOther }: AgentChoiceProps) {
  const usable = agents.filter(({ name, usable: isUsable }) => isUsable && name !== REMOTE);
  return (
    <fieldset className="start-agents">
      <legend className="label">Agent</legend>
      {!areKnown && (
        <p className="start-hint" role="status">
          Looking for agents on this machine…
        </p>
      )}
      {usable.map((one) => (
        <Choice
          key={one.name}
          agent={one}
          title={one.title || one.name}
          note={one.version}
          isChosen={agent === one.name || !!others?.has(one.name)}
          isOneOfMany={others !== null}
          isOff={others !== null && !abilitiesOf(one).modes.has(mode)}
          onChoose={() => (others ? onOther(one.name) : onChange({ agent: one.name, runner: "" }))}
        />
      ))}
      {(others ? [] : runners).map((one) => (
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
  readonly isOneOfMany?: boolean;
  /** It cannot be held to what is chosen for all of them. */
  readonly isOff?: boolean;
  readonly onChoose: () => void;
}

function Choice({ agent, title, note, isChosen, isOneOfMany = false, isOff = false, onChoose }: ChoiceProps) {
  const { words, canAsk } = abilitiesOf(agent);
  return (
    <label className="start-agent" data-on={isChosen || undefined} data-silent={!canAsk || undefined}>
      <input type={isOneOfMany ? "checkbox" : "radio"} name="agent" className="unseen" checked={isChosen} disabled={isOff} onChange={onChoose} aria-label={`${title} ${note}`.trim()} />
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
