import { useEffect, useState } from "react";
import type { HarnessState, RunConfig } from "../../client/src/index.js";
import { api, type Session } from "../api.js";
import { useChoices, useModels } from "../sessions/choices.js";
import { AgentField, ModeField, ModelField, PermissionField } from "../sessions/fields.js";
import { useConversation } from "./context.js";

/** A command is answered by nothing: what came of it is looked up a little later. */
const LOOK_AGAIN_MS = 400;

/** How the runs that come are run. */
export function Settings({ state }: { state: HarnessState }) {
  const { sessionId, client } = useConversation();
  const { server, agents, runners } = useChoices();
  const [session, setSession] = useState<Session | null>(null);
  const [model, setModel] = useState<string | null>(null);
  const [round, setRound] = useState(0);
  const models = useModels(session?.agentName ?? "");
  useEffect(() => {
    const abort = new AbortController();
    api.session(sessionId, abort.signal).then(setSession, () => undefined); // the banner of the connection shows it
    return () => abort.abort();
  }, [sessionId, state.mode, state.model, state.status, round]);
  if (!server || !session) return null;
  const configure = (config: RunConfig) => {
    client.configure(config);
    setSession({ ...session, ...config, ...(config.agent && { agentName: config.agent, model: "" }) } as Session);
    setTimeout(() => setRound((now) => now + 1), LOOK_AGAIN_MS);
  };
  const changeModel = () => {
    if (model !== null && model.trim() && model.trim() !== session.model) configure({ model: model.trim() });
    setModel(null);
  };
  return (
    <section>
      <h2>Settings for the next run</h2>
      <div className="settings">
        <AgentField agents={agents} runners={runners} agent={session.agentName} runner={session.runner} onChange={configure} />
        <ModelField models={models.models} placeholder={models.defaultModel || "agent default"} value={model ?? session.model} onChange={setModel} onDone={changeModel} />
        <PermissionField value={session.permissionMode} agent={agents.find(({ name }) => name === session.agentName)} onChange={(permissionMode) => configure({ permissionMode })} />
        <ModeField modes={server.modes} value={session.mode} onChange={(mode) => configure({ mode })} isDisabled={state.status === "running"} />
      </div>
    </section>
  );
}
