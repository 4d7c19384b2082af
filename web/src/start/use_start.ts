/** What is chosen for a new conversation, what follows from it, and the start itself. */

import { useState } from "react";
import type { Attachment, PermissionMode } from "../../client/src/index.js";
import { api, type RequestFailed } from "../api.js";
import { go, sessionAddress } from "../route.js";
import { useChoices, useModels } from "../sessions/choices.js";
import type { Origin } from "../sessions/origin.js";
import { abilitiesOf, branchFor, nearestMode } from "./abilities.js";
import { REMOTE, type AgentChosen } from "./agent_choice.js";
import { NO_MORE } from "./more_options.js";
import type { Place } from "./place_choice.js";
import { useProject, useProjects } from "./use_projects.js";

interface StartOptions {
  readonly continues: string;
  readonly before: string;
  readonly origin: Origin | null;
  /** Another agent is chosen first than that of the session. */
  readonly handsOver: boolean;
  readonly prompt: string;
  readonly files: readonly Attachment[];
  readonly onStarted: () => void;
}

export function useStart({ continues, before, origin, handsOver, prompt, files, onStarted }: StartOptions) {
  const choices = useChoices();
  const projects = useProjects();
  const [chosenAgent, chooseAgent] = useState<AgentChosen | null>(null);
  const [model, setModel] = useState("");
  const [folder, setFolder] = useState("");
  const [chosenPlace, setPlace] = useState<Place | null>(null);
  const [chosenBranch, setBranch] = useState<string | null>(null);
  const [wishedMode, setMode] = useState<PermissionMode | null>(null);
  const [more, setMore] = useState(NO_MORE);
  const [isStarting, setStarting] = useState(false);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  const known = origin?.session;
  const other = handsOver ? choices.agents.find(({ name, usable }) => usable && name !== REMOTE && name !== known?.agentName)?.name : undefined;
  const agent = chosenAgent?.agent ?? other ?? known?.agentName ?? choices.server?.defaultAgent ?? "";
  const runner = chosenAgent?.runner ?? known?.runner ?? "";
  const runnerAgent = choices.runners.find(({ name }) => name === runner)?.agent ?? agent;
  const abilities = abilitiesOf(choices.agents.find(({ name }) => name === (agent === REMOTE ? runnerAgent : agent)));
  const models = useModels(agent);
  const usualModel = (known && agent === known.agentName && known.model) || models.defaultModel;
  const usualFolder = known?.cwd || choices.server?.cwd || "";
  const cwd = folder.trim() || usualFolder;
  const project = useProject(cwd);
  const isProposed = !!project?.isRepository && project.liveAgents.length > 0 && !continues;
  const place: Place = runner || (project && !project.isRepository) ? "folder" : (chosenPlace ?? (isProposed ? "worktree" : "folder"));
  const branch = chosenBranch ?? branchFor(prompt);
  const mode = nearestMode(wishedMode ?? ((known?.permissionMode || "default") as PermissionMode), abilities);
  const canStart = !!prompt.trim() && !isStarting && (!continues || !!origin);

  const begin = async () => {
    const made = place === "folder" ? null : await api.makeWorktree({ folder: cwd, branch, kind: place });
    try {
      return await api.createSession({
        ...(agent && { agent }),
        ...(runner && { runner }),
        ...((model.trim() || usualModel) && { model: model.trim() || usualModel }),
        ...(more.mode && { mode: more.mode }),
        ...(more.maxTurns && { maxTurns: Number(more.maxTurns) }),
        ...(more.effort && { effort: more.effort }),
        ...(more.systemPrompt.trim() && { systemPrompt: more.systemPrompt.trim() }),
        ...((made || folder.trim()) && { cwd: made?.folder ?? folder.trim() }),
        ...(continues && { continues }),
        ...(before && { before }),
        ...(files.length && { attachments: files }),
        permissionMode: mode,
        prompt,
      });
    } catch (error) {
      if (made && place === "worktree") await api.removeWorktree(made.folder).catch(() => undefined); // nothing ran in it
      throw error;
    }
  };
  const start = () => {
    if (!canStart) return;
    setStarting(true);
    setProblem(null);
    begin().then(
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
  return {
    choices, projects, agent, runner, abilities, models, model, usualModel, folder, usualFolder, cwd, project, place, branch, mode, more, canStart, isStarting, problem,
    chooseAgent: (chosen: AgentChosen) => (chooseAgent(chosen), setModel("")),
    setModel, setFolder, setPlace, setBranch, setMode, setMore, start,
  };
}
