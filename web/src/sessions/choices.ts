/** What there is to choose from: agents, models, modes. */

import { useEffect, useState } from "react";
import { api, type Agent, type Model, type RequestFailed, type Runner, type ServerFacts } from "../api.js";

export interface Choices {
  readonly server: ServerFacts | null;
  readonly agents: readonly Agent[];
  readonly runners: readonly Runner[];
  readonly areAgentsKnown: boolean;
  readonly problem: RequestFailed | null;
}

export function useChoices(): Choices {
  const [choices, setChoices] = useState<Choices>({ server: null, agents: [], runners: [], areAgentsKnown: false, problem: null });
  useEffect(() => {
    const abort = new AbortController();
    const failed = (problem: RequestFailed) => !abort.signal.aborted && setChoices((before) => ({ ...before, problem }));
    api.server(abort.signal).then((server) => setChoices((before) => ({ ...before, server })), failed);
    api.agents(abort.signal).then(({ agents, runners }) => setChoices((before) => ({ ...before, agents, runners, areAgentsKnown: true })), failed);
    return () => abort.abort();
  }, []);
  return choices;
}

export interface KnownModels {
  readonly models: readonly Model[];
  readonly defaultModel: string;
}

const NO_MODELS: KnownModels = { models: [], defaultModel: "" };

export function useModels(agent: string): KnownModels {
  const [found, setFound] = useState(NO_MODELS);
  useEffect(() => {
    if (!agent) return undefined;
    const abort = new AbortController();
    api.models(agent, abort.signal).then(setFound, () => !abort.signal.aborted && setFound(NO_MODELS));
    return () => abort.abort();
  }, [agent]);
  return found;
}
