/** For a person who is here for the first time: what is installed, what is missing, and something to try. */

import { useEffect, useState } from "react";
import { api, type Agent, type RequestFailed } from "../api.js";
import { AgentBadge } from "../inbox/agent_badge.js";
import { go, NEW_ADDRESS, sessionAddress } from "../route.js";
import { useChoices } from "../sessions/choices.js";
import { CopyButton } from "../shell/copy_button.js";
import { Icon } from "../shell/icon.js";
import "../style/first.css";

const SHOWN_FIRST = 4;
/** Most people look for these. */
const WANTED = ["claude", "codex", "opencode", "gemini"];

export default function FirstPage() {
  const { agents, areAgentsKnown, problem } = useChoices();
  const programs = agents.filter(({ builtIn, name }) => !builtIn && name !== "remote");
  const installed = programs.filter(({ usable }) => usable);
  const missing = programs.filter(({ usable, install }) => !usable && install).sort((left, right) => placeOf(left) - placeOf(right));
  if (!areAgentsKnown && !problem) return <p className="first faint empty">Looking for agents on this machine…</p>;
  return (
    <div className="first empty-first">
      <h2 className="first-title">{installed.length ? "Nothing has run here yet" : "No agent is installed here yet"}</h2>
      <p className="soft">
        {installed.length
          ? `Harness found ${listed(installed.map(({ title, name }) => title || name))} on this machine. What you start, here or in a terminal, shows up here.`
          : "Harness runs the agents that are on this machine and keeps their work in one place. It found none in your PATH. You can look around first: it costs nothing."}
      </p>
      {installed.length > 0 && (
        <p>
          <a className="button primary" href={NEW_ADDRESS}>
            <Icon name="plus" /> New conversation
          </a>
        </p>
      )}
      <Demonstration isFirst={!installed.length} />
      {problem && (
        <p className="problem" role="alert">
          {problem.message} {problem.hint}
        </p>
      )}
      {missing.length > 0 && <Install agents={missing} hasSome={installed.length > 0} />}
      <OwnModel />
      <Histories />
    </div>
  );
}

function placeOf({ name }: Agent): number {
  const place = WANTED.indexOf(name);
  return place < 0 ? WANTED.length : place;
}

function listed(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

function Demonstration({ isFirst }: { isFirst: boolean }) {
  const [isStarting, setStarting] = useState(false);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  const start = async () => {
    setStarting(true);
    try {
      const { folder, model, prompt } = await api.demonstration();
      const { id } = await api.createSession({ agent: "native", model, cwd: folder, prompt, permissionMode: "default" });
      go(sessionAddress(id));
    } catch (error) {
      setProblem(error as RequestFailed);
      setStarting(false);
    }
  };
  return (
    <section className="first-panel first-demonstration" aria-labelledby="first-demonstration">
      <Icon name="play" />
      <div>
        <h3 id="first-demonstration">See how it works</h3>
        <p className="small soft">A script answers in place of a model. It lists a folder, asks before a command, and runs one that you can watch, steer and stop. No key, no cost, about a minute, in a scratch folder.</p>
        {problem && (
          <p className="problem" role="alert">
            {problem.message} {problem.hint}
          </p>
        )}
      </div>
      <button type="button" className={isFirst ? "button primary" : "button"} disabled={isStarting} onClick={() => void start()}>
        {isStarting ? "Starting…" : "Start the demonstration"}
      </button>
    </section>
  );
}

function Install({ agents, hasSome }: { agents: readonly Agent[]; hasSome: boolean }) {
  const [isAll, setAll] = useState(false);
  const shown = isAll ? agents : agents.slice(0, SHOWN_FIRST);
  return (
    <section className="first-panel" aria-labelledby="first-install">
      <h3 id="first-install">
        {hasSome ? "Install another agent" : "Install an agent"} <span className="faint small">{hasSome ? "" : "any one is enough"}</span>
      </h3>
      <div className="table-frame" tabIndex={0} role="group" aria-label="Agents that are not installed">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Agent</th>
              <th scope="col">Needs</th>
              <th scope="col">Command</th>
              <th scope="col">
                <span className="unseen">Copy</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map(({ name, title, install, keys }) => (
              <tr key={name}>
                <th scope="row">
                  <span className="first-agent">
                    <AgentBadge agentName={name} title={title} /> {title || name}
                  </span>
                </th>
                <td className="faint">{keys.length ? "an account or a key" : "see its manual"}</td>
                <td>
                  <code>{install}</code>
                </td>
                <td>
                  <CopyButton text={install} label={`Copy the command for ${title || name}`} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="first-foot">
        <button type="button" className="button small" onClick={() => window.location.reload()}>
          Look again
        </button>
        {!isAll && agents.length > shown.length && (
          <button type="button" className="link" onClick={() => setAll(true)}>
            {agents.length - shown.length} more agents
          </button>
        )}
      </p>
    </section>
  );
}

function OwnModel() {
  const command = "ANTHROPIC_API_KEY=… harness serve";
  return (
    <section className="first-panel" aria-labelledby="first-own">
      <h3 id="first-own">Or give Harness’s own agent a model</h3>
      <div className="first-own">
        <AgentBadge agentName="native" title="Harness agent" />
        <div className="small soft">
          <p>
            It is built in. It needs a key in the environment of <code>harness serve</code>, for example:
          </p>
          <pre className="first-command">
            <span className="faint">$ </span>
            {command}
          </pre>
          <p className="faint">Keys are never typed into this page and never shown by it. A model on this machine needs none: “harness models fetch local”.</p>
        </div>
      </div>
    </section>
  );
}

function Histories() {
  const [found, setFound] = useState<readonly { title: string; sessions: number }[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    api.histories(abort.signal).then(({ histories }) => setFound(histories), () => undefined); // it is only an offer
    return () => abort.abort();
  }, []);
  if (!found.length) return null;
  const total = found.reduce((sum, { sessions }) => sum + sessions, 0);
  return (
    <section className="first-panel" aria-labelledby="first-histories">
      <h3 id="first-histories">Already used agents before?</h3>
      <p className="small soft">
        Found the history of {total === 1 ? "one conversation" : `${total} conversations`} of {listed(found.map(({ title }) => title))} on this machine. Nothing of it is copied, and nothing leaves
        this machine. In a terminal they are listed, searched and continued:
      </p>
      <pre className="first-command">
        <span className="faint">$ </span>harness sessions list
      </pre>
    </section>
  );
}
