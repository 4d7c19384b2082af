/** What a newcomer needs to know: what answers here, what could, and something to try. */

import type { Agent } from "../api.js";
import "../style/welcome.css";
import { CopyButton } from "../shell/copy_button.js";
import type { Choices, KnownModels } from "./choices.js";

const EXAMPLE = "Explain what this project does, and list the three files to read first.";
const DEMONSTRATION = "scripted/demo";

interface WelcomeProps {
  readonly choices: Choices;
  readonly models: KnownModels;
  readonly agent: string;
  /** Nothing was written yet. */
  readonly isBlank: boolean;
  readonly onExample: (prompt: string) => void;
}

export function Welcome({ choices, models, agent, isBlank, onExample }: WelcomeProps) {
  if (!choices.areAgentsKnown) return null;
  const programs = choices.agents.filter((one) => !one.builtIn);
  const installed = programs.filter((one) => one.usable);
  const missing = programs.filter((one) => !one.usable && one.install);
  const chosen = choices.agents.find(({ name }) => name === agent);
  const isDemonstration = !!chosen?.builtIn && models.defaultModel === DEMONSTRATION;
  return (
    <div className="welcome">
      {isBlank && (
        <p>
          Try:{" "}
          <button type="button" className="example" onClick={() => onExample(EXAMPLE)}>
            {EXAMPLE}
          </button>
        </p>
      )}
      {isDemonstration && (
        <p className="welcome-note" role="note">
          <strong>No model is set up for {chosen.title || "this agent"}, so a demonstration answers</strong>: its words come from a script, its tools are real. For
          real work set the key of a model before you start the server (for example <code>ANTHROPIC_API_KEY</code>, <code>OPENAI_API_KEY</code> or{" "}
          <code>GEMINI_API_KEY</code>){installed.length ? ", or choose an installed agent above." : ", or install an agent below."}
        </p>
      )}
      <p className="faint">
        {installed.length
          ? `Installed on this machine: ${installed.map((one) => one.title || one.name).join(", ")}.`
          : "No other coding agent is installed on this machine."}
      </p>
      {missing.length > 0 && <Missing agents={missing} isOpen={!installed.length && isDemonstration} />}
    </div>
  );
}

function Missing({ agents, isOpen }: { agents: readonly Agent[]; isOpen: boolean }) {
  return (
    <details open={isOpen}>
      <summary>
        {agents.length} {agents.length === 1 ? "agent" : "agents"} you could install
      </summary>
      <ul className="missing">
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
    </details>
  );
}
