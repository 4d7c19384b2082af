import { useEffect, useState, type FormEvent, type KeyboardEvent } from "react";
import type { PermissionMode } from "../../client/src/index.js";
import { api, type Agent, type Model, type RequestFailed, type ServerFacts } from "../api.js";
import { go, sessionAddress } from "../route.js";
import { Icon } from "../shell/icon.js";

const PERMISSIONS: readonly (readonly [PermissionMode, string])[] = [
  ["default", "Ask before changing anything"],
  ["acceptEdits", "Edit files without asking"],
  ["fullAuto", "Never ask"],
  ["readOnly", "Only read"],
];

interface Choices {
  readonly server: ServerFacts | null;
  readonly agents: readonly Agent[];
  readonly problem: RequestFailed | null;
}

export function NewConversation({ onMenu, onStarted }: { onMenu: () => void; onStarted: () => void }) {
  const choices = useChoices();
  const [agent, setAgent] = useState("");
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("");
  const [cwd, setCwd] = useState("");
  const [permissionMode, setPermissionMode] = useState<PermissionMode>("default");
  const [prompt, setPrompt] = useState("");
  const [isStarting, setStarting] = useState(false);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  const chosenAgent = agent || choices.server?.defaultAgent || "";
  const models = useModels(chosenAgent);
  const start = (event: FormEvent) => {
    event.preventDefault();
    if (!prompt.trim() || isStarting) return;
    setStarting(true);
    api
      .createSession({
        ...(chosenAgent && { agent: chosenAgent }),
        ...(model.trim() && { model: model.trim() }),
        ...(mode && { mode }),
        ...(cwd.trim() && { cwd: cwd.trim() }),
        permissionMode,
        prompt,
      })
      .then(
        ({ id }) => {
          onStarted();
          go(sessionAddress(id));
        },
        (error: RequestFailed) => {
          setStarting(false);
          setProblem(error);
        },
      );
  };
  const submitOnEnter = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    event.currentTarget.form?.requestSubmit();
  };
  const trouble = problem ?? choices.problem;
  return (
    <main className="new">
      <button type="button" className="quiet round menu-button" onClick={onMenu} aria-label="Show the conversations">
        <Icon name="menu" />
      </button>
      <form className="new-form" onSubmit={start} aria-label="New conversation">
        <h1>What shall be done?</h1>
        <textarea
          value={prompt}
          onChange={(event) => setPrompt(event.target.value)}
          onKeyDown={submitOnEnter}
          placeholder="Describe the task"
          aria-label="Prompt"
          rows={4}
          autoFocus
        />
        <div className="new-fields">
          <AgentField agents={choices.agents} value={chosenAgent} onChange={(name) => (setAgent(name), setModel(""))} />
          <ModelField models={models.models} placeholder={models.defaultModel || choices.server?.defaultModel || "the agent’s own"} value={model} onChange={setModel} />
          {!!choices.server?.modes.length && (
            <label>
              <span>Mode</span>
              <select aria-label="Mode" value={mode} onChange={(event) => setMode(event.target.value)}>
                <option value="">Default</option>
                {choices.server.modes.map(({ id, name }) => (
                  <option key={id} value={id}>
                    {name || id}
                  </option>
                ))}
              </select>
            </label>
          )}
          <label>
            <span>Permissions</span>
            <select aria-label="Permissions" value={permissionMode} onChange={(event) => setPermissionMode(event.target.value as PermissionMode)}>
              {PERMISSIONS.map(([id, name]) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          </label>
          <label className="wide">
            <span>Workspace folder</span>
            <input aria-label="Workspace folder" value={cwd} onChange={(event) => setCwd(event.target.value)} placeholder={choices.server?.cwd || "where the server runs"} className="fixed" spellCheck={false} />
          </label>
        </div>
        {trouble && (
          <p className="problem" role="alert">
            {trouble.status === 401 ? "This browser is not let in. Open the link that “harness serve” prints." : `${trouble.message} ${trouble.hint}`}
          </p>
        )}
        <div className="new-buttons">
          <span className="faint">{choices.server ? `Harness ${choices.server.version}` : ""}</span>
          <button type="submit" className="button primary" disabled={!prompt.trim() || isStarting}>
            {isStarting ? "Starting…" : "Start"}
          </button>
        </div>
      </form>
    </main>
  );
}

function AgentField({ agents, value, onChange }: { agents: readonly Agent[]; value: string; onChange: (name: string) => void }) {
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

function ModelField({ models, placeholder, value, onChange }: { models: readonly Model[]; placeholder: string; value: string; onChange: (model: string) => void }) {
  return (
    <label>
      <span>Model</span>
      <input aria-label="Model" list="models" value={value} placeholder={placeholder} onChange={(event) => onChange(event.target.value)} spellCheck={false} />
      <datalist id="models">
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

function useChoices(): Choices {
  const [choices, setChoices] = useState<Choices>({ server: null, agents: [], problem: null });
  useEffect(() => {
    const abort = new AbortController();
    const failed = (problem: RequestFailed) => !abort.signal.aborted && setChoices((before) => ({ ...before, problem }));
    api.server(abort.signal).then((server) => setChoices((before) => ({ ...before, server })), failed);
    api.agents(abort.signal).then(({ agents }) => setChoices((before) => ({ ...before, agents })), failed);
    return () => abort.abort();
  }, []);
  return choices;
}

function useModels(agent: string): { readonly models: readonly Model[]; readonly defaultModel: string } {
  const [found, setFound] = useState<{ models: readonly Model[]; defaultModel: string }>({ models: [], defaultModel: "" });
  useEffect(() => {
    if (!agent) return undefined;
    const abort = new AbortController();
    const none = { models: [], defaultModel: "" };
    api.models(agent, abort.signal).then(setFound, () => !abort.signal.aborted && setFound(none));
    return () => abort.abort();
  }, [agent]);
  return found;
}
