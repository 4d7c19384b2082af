import { useEffect, useRef, useState, type FormEvent, type KeyboardEvent } from "react";
import type { PermissionMode } from "../../client/src/index.js";
import { api, type RequestFailed } from "../api.js";
import { useChosenFiles } from "../files/chosen_files.js";
import { AttachButton, ChosenList } from "../files/chosen_list.js";
import { go, sessionAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { useChoices, useModels } from "./choices.js";
import { AgentField, ModeField, ModelField, PermissionField } from "./fields.js";
import { Welcome } from "./welcome.js";
import { attachmentsOf, useOrigin, type Origin } from "./origin.js";

interface NewConversationProps {
  /** A session that it goes on with; empty: none. */
  readonly continues: string;
  /** A message there: only what was said before it. */
  readonly before: string;
  readonly onMenu: () => void;
  readonly onStarted: () => void;
}

/** Its component lives as long as the form is for the same thing. */
export function NewConversation({ continues, before, onMenu, onStarted }: NewConversationProps) {
  const choices = useChoices();
  const { origin, problem: originProblem } = useOrigin(continues, before);
  const [agent, setAgent] = useState("");
  const [runner, setRunner] = useState("");
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("");
  const [cwd, setCwd] = useState("");
  const [permissionMode, setPermissionMode] = useState<PermissionMode | "">("");
  const [prompt, setPrompt] = useState("");
  const [isStarting, setStarting] = useState(false);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  const chosen = useChosenFiles();
  const writing = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (!origin?.message) return;
    setPrompt(origin.message.content);
    chosen.replace(attachmentsOf(origin.message));
  }, [origin, chosen.replace]);
  const known = origin?.session;
  const chosenAgent = agent || known?.agentName || choices.server?.defaultAgent || "";
  const chosenRunner = runner || (agent ? "" : (known?.runner ?? ""));
  const models = useModels(chosenAgent);
  const usualModel = (known && chosenAgent === known.agentName && known.model) || models.defaultModel;
  const chosenPermissions = permissionMode || (known?.permissionMode as PermissionMode | undefined) || "default";
  const canStart = !!prompt.trim() && !isStarting && (!continues || !!origin);
  const start = (event: FormEvent) => {
    event.preventDefault();
    if (!canStart) return;
    setStarting(true);
    api
      .createSession({
        ...(chosenAgent && { agent: chosenAgent }),
        ...(chosenRunner && { runner: chosenRunner }),
        ...((model.trim() || usualModel) && { model: model.trim() || usualModel }),
        ...(mode && { mode }),
        ...(cwd.trim() && { cwd: cwd.trim() }),
        ...(continues && { continues }),
        ...(before && { before }),
        ...(chosen.files.length && { attachments: chosen.files }),
        permissionMode: chosenPermissions,
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
  const takeExample = (text: string) => {
    setPrompt(text);
    writing.current?.focus();
  };
  const trouble = problem ?? originProblem ?? choices.problem;
  return (
    <main className="new">
      <button type="button" className="quiet round menu-button" onClick={onMenu} aria-label="Show conversations">
        <Icon name="menu" />
      </button>
      <form className="new-form" onSubmit={start} aria-label="New conversation" {...chosen.target}>
        <h1>{before ? "Rephrase" : continues ? "What comes next?" : "What should the agent do?"}</h1>
        {origin && <OriginNote origin={origin} isPartial={!!before} />}
        <textarea
          ref={writing}
          value={prompt}
          onChange={(event) => setPrompt(event.target.value)}
          onKeyDown={submitOnEnter}
          placeholder={continues ? "Write the next message" : "Describe the task in your own words"}
          aria-label="Prompt"
          rows={4}
          autoFocus
        />
        <ChosenList chosen={chosen} />
        <div className="new-fields">
          <AgentField
            agents={choices.agents}
            runners={choices.runners}
            agent={chosenAgent}
            runner={chosenRunner}
            onChange={(chosen) => (setAgent(chosen.agent), setRunner(chosen.runner ?? ""), setModel(""))}
          />
          <ModelField models={models.models} placeholder={usualModel || "agent default"} value={model} onChange={setModel} />
          <ModeField modes={choices.server?.modes ?? []} value={mode || known?.mode || ""} onChange={setMode} />
          <PermissionField value={chosenPermissions} onChange={setPermissionMode} />
          <label className="wide">
            <span>Workspace folder</span>
            <input aria-label="Workspace folder" value={cwd} onChange={(event) => setCwd(event.target.value)} placeholder={known?.cwd || choices.server?.cwd || "where the server runs"} className="fixed" spellCheck={false} />
          </label>
        </div>
        {trouble && (
          <p className="problem" role="alert">
            {trouble.status === 401 ? "This browser is not logged in. Open the link that “harness serve” prints." : `${trouble.message} ${trouble.hint}`}
          </p>
        )}
        <div className="new-buttons">
          <AttachButton chosen={chosen} />
          <span className="faint">{choices.server ? `Harness ${choices.server.version}` : ""}</span>
          <button type="submit" className="button primary" disabled={!canStart}>
            {isStarting ? "Starting…" : "Start"}
          </button>
        </div>
        {!continues && <Welcome choices={choices} models={models} agent={chosenAgent} isBlank={!prompt} onExample={takeExample} />}
      </form>
    </main>
  );
}

function OriginNote({ origin: { session }, isPartial }: { origin: Origin; isPartial: boolean }) {
  return (
    <p className="new-origin faint">
      A new conversation, which begins with {isPartial ? "what was said before this message in" : "all that was said in"}{" "}
      <a href={sessionAddress(session.id)}>{session.title || "the other one"}</a>. That one stays as it is{isPartial ? ", and so do the files that it changed" : ""}.
    </p>
  );
}
