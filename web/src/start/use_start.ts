/** What is chosen for a new conversation, what follows from it, and the start itself. */

import { useState } from "react";
import { lastStart, rememberStart } from "./last_start.js";
import type { Attachment, PermissionMode } from "../../client/src/index.js";
import { api, type RequestFailed } from "../api.js";
import { go, INBOX_ADDRESS, sessionAddress } from "../route.js";
import { useChoices, useModels } from "../sessions/choices.js";
import type { Origin } from "../sessions/origin.js";
import { abilitiesOf, branchFor, nearestMode } from "./abilities.js";
import { REMOTE, type AgentChosen } from "./agent_choice.js";
import { useFolderSettings } from "./folder_settings.js";
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
  const [last] = useState(lastStart);
  const [chosenAgent, chooseAgent] = useState<AgentChosen | null>(null);
  const [others, setOthers] = useState<ReadonlySet<string> | null>(null);
  const [chosenModel, setModel] = useState<string | null>(null);
  const [folder, setFolder] = useState(continues ? "" : last.folder);
  const [chosenPlace, setPlace] = useState<Place | null>(null);
  const [chosenBranch, setBranch] = useState<string | null>(null);
  const [wishedMode, setMode] = useState<PermissionMode | null>(null);
  const [isConfinedWished, setConfined] = useState(!continues && last.sandbox === true);
  const [more, setMore] = useState(NO_MORE);
  const [isStarting, setStarting] = useState(false);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  const known = origin?.session;
  const other = handsOver ? choices.agents.find(({ name, usable }) => usable && name !== REMOTE && name !== known?.agentName)?.name : undefined;
  const remembered = !continues && choices.agents.some(({ name, usable }) => usable && name === last.agent) ? last : null;
  const agent = chosenAgent?.agent ?? other ?? known?.agentName ?? remembered?.agent ?? choices.server?.defaultAgent ?? "";
  const rememberedRunner = choices.runners.some(({ name }) => name === remembered?.runner) ? remembered?.runner : "";
  const runner = chosenAgent?.runner ?? known?.runner ?? rememberedRunner ?? "";
  const runnerAgent = choices.runners.find(({ name }) => name === runner)?.agent ?? agent;
  const abilities = abilitiesOf(choices.agents.find(({ name }) => name === (agent === REMOTE ? runnerAgent : agent)));
  const wall = runner ? undefined : choices.agents.find(({ name }) => name === agent)?.sandbox;
  const isConfined = isConfinedWished && !!wall?.by;
  const models = useModels(agent);
  const rememberedModel = continues ? "" : (last.models[agent] ?? "");
  const model = chosenModel ?? (models.models.some(({ id, usable }) => usable && id === rememberedModel) ? rememberedModel : "");
  const usualModel = (known && agent === known.agentName && known.model) || models.defaultModel;
  const usualFolder = known?.cwd || choices.server?.cwd || "";
  const cwd = folder.trim() || usualFolder;
  const project = useProject(cwd);
  const isProposed = !!project?.isRepository && project.liveAgents.length > 0 && !continues;
  const place: Place = runner || (project && !project.isRepository) ? "folder" : (chosenPlace ?? (isProposed ? "worktree" : "folder"));
  const branch = chosenBranch ?? branchFor(prompt);
  const mode = nearestMode(wishedMode ?? ((known?.permissionMode || last.mode || "default") as PermissionMode), abilities);
  const several = others ? [agent, ...others].filter((name, index, all) => name && all.indexOf(name) === index) : [agent];
  const brought = useFolderSettings(runner ? "" : cwd, agent);
  const isFolderOpen = !!brought.asks && mode !== "fullAuto" && !brought.isLeftOut;
  const canStart = !!prompt.trim() && !isStarting && !isFolderOpen && (!continues || !!origin);

  /** `name`: one of several agents, each with its usual model and in a worktree of its own. */
  const begin = async (name: string) => {
    const isOne = several.length === 1;
    const where: Place = isOne ? place : project?.isRepository ? "worktree" : "folder";
    const made = where === "folder" ? null : await api.makeWorktree({ folder: cwd, branch: isOne ? branch : `${branch}-${name}`, kind: where });
    const wantedModel = name === agent ? model.trim() || usualModel : (last.models[name] ?? "");
    try {
      return await api.createSession({
        ...(name && { agent: name }),
        ...(isOne && runner && { runner }),
        ...(wantedModel && { model: wantedModel }),
        ...(more.mode && { mode: more.mode }),
        ...(more.maxTurns && { maxTurns: Number(more.maxTurns) }),
        ...(more.effort && { effort: more.effort }),
        ...(more.systemPrompt.trim() && { systemPrompt: more.systemPrompt.trim() }),
        ...((made || folder.trim()) && { cwd: made?.folder ?? folder.trim() }),
        ...(continues && { continues }),
        ...(before && { before }),
        ...(files.length && { attachments: files }),
        ...(brought.asks && brought.isLeftOut && { folderSettings: "none" as const }),
        ...(isConfined && { sandbox: true }),
        permissionMode: mode,
        prompt,
      });
    } catch (error) {
      if (made && where === "worktree") await api.removeWorktree(made.folder).catch(() => undefined); // nothing ran in it
      throw error;
    }
  };
  const start = () => {
    if (!canStart) return;
    setStarting(true);
    setProblem(null);
    if (!continues) rememberStart({ agent, runner, folder: folder.trim(), mode: wishedMode ?? last.mode, sandbox: isConfinedWished, models: { ...last.models, [agent]: model.trim() } });
    Promise.allSettled(several.map(begin)).then((results) => {
      const started = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
      const failed = results.find((result) => result.status === "rejected");
      if (started.length && !(failed && several.length === 1)) {
        onStarted();
        go(several.length === 1 ? sessionAddress(started[0]!.id) : INBOX_ADDRESS);
      }
      if (!failed) return;
      setStarting(false);
      setProblem(failed.reason as RequestFailed);
      if (started.length) setOthers(new Set(several.filter((_, index) => results[index]!.status === "rejected")));
    });
  };
  const chooseOther = (name: string) => {
    const next = new Set(several.filter((one) => one !== name));
    if (!several.includes(name)) next.add(name);
    if (!next.size) return;
    const [first] = next;
    if (!next.has(agent)) (chooseAgent({ agent: first!, runner: "" }), setModel(null));
    setOthers(next);
  };
  return {
    choices, projects, agent, runner, abilities, wall, isConfined, brought: mode === "fullAuto" ? null : brought, models, model, usualModel, folder, usualFolder, cwd, project, place, branch, mode, more, canStart, isStarting, problem,
    others, count: several.length, chooseOther, toggleSeveral: () => setOthers(others ? null : new Set()),
    chooseAgent: (chosen: AgentChosen) => (chooseAgent(chosen), setModel(null)),
    setModel, setFolder, setPlace, setBranch, setMode, setConfined, setMore, start,
  };
}
