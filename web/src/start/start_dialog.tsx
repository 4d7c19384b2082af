/** A new conversation: a dialog over whatever is shown. Its component lives as long as it is for the same thing. */

import { useEffect, useRef, useState, type FormEvent, type KeyboardEvent } from "react";
import { useChosenFiles } from "../files/chosen_files.js";
import { AttachButton, ChosenList } from "../files/chosen_list.js";
import { useDraft } from "../prompt/drafts.js";
import { PromptField } from "../prompt/prompt_field.js";
import { FLEET_ADDRESS, sessionAddress } from "../route.js";
import { attachmentsOf, useOrigin, type Origin } from "../sessions/origin.js";
import { Icon } from "../shell/icon.js";
import "../style/dock.css";
import "../style/start.css";
import { AgentChoice } from "./agent_choice.js";
import { AsksChoice } from "./asks_choice.js";
import { FilesNote } from "./files_note.js";
import { FolderChoice } from "./folder_choice.js";
import { FolderSettingsNote } from "./folder_settings.js";
import { HandoverNote } from "./handover_note.js";
import { ModelChoice } from "./model_choice.js";
import { MoreOptions } from "./more_options.js";
import { PlaceChoice } from "./place_choice.js";
import { Templates } from "./templates.js";
import { useStart } from "./use_start.js";
import { WallChoice } from "./wall_choice.js";

interface StartDialogProps {
  /** A session that it continues; empty: none. */
  readonly continues: string;
  /** A message there: only what came before it. */
  readonly before: string;
  /** Another agent is to continue it. */
  readonly handsOver: boolean;
  readonly onClose: () => void;
}

export function StartDialog({ continues, before, handsOver, onClose }: StartDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [prompt, setPrompt] = useDraft(continues ? `new ${continues} ${before}` : "new");
  const [isMoreShown, setMoreShown] = useState(false);
  const { origin, problem: originProblem } = useOrigin(continues, before);
  const chosen = useChosenFiles();
  const form = useStart({ continues, before, origin, handsOver, prompt, files: chosen.files, onStarted: () => setPrompt("") });
  useEffect(() => {
    dialog.current?.showModal(); // which moves the focus to the first button
    dialog.current?.querySelector<HTMLElement>(".start-prompt")?.focus();
  }, []);
  useEffect(() => {
    if (!origin?.message) return;
    setPrompt(origin.message.content);
    chosen.replace(attachmentsOf(origin.message));
  }, [origin, chosen.replace, setPrompt]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    form.start();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.start();
  };
  const trouble = form.problem ?? originProblem ?? form.choices.problem;
  return (
    <dialog ref={dialog} className="start" aria-labelledby="start-title" onClose={onClose} onKeyDown={onKeyDown}>
      <form onSubmit={submit} aria-label="New conversation" {...chosen.target}>
        <div className="start-head">
          <h2 id="start-title">{before ? "Rephrase" : handsOver ? "Hand over to another agent" : continues ? "Continue in a new conversation" : "New conversation"}</h2>
          <Templates cwd={form.cwd} onChoose={setPrompt} />
          <button type="button" className="quiet round" onClick={() => dialog.current?.close()} aria-label="Close">
            <Icon name="close" />
          </button>
        </div>
        {origin && <OriginNote origin={origin} isPartial={!!before} />}
        {before && origin?.message?.runId && <FilesNote sessionId={continues} runId={origin.message.runId} />}
        <PromptField
          className="start-prompt"
          label="Prompt"
          placeholder={continues ? "Write the next message" : "Describe the task in your own words"}
          value={prompt}
          onChange={setPrompt}
          onKeyDown={() => undefined}
          source={{ cwd: form.cwd, agent: form.agent }}
          rowsMin={3}
          rowsMax={10}
          isFocused
        />
        <ChosenList chosen={chosen} />
        <div className="start-tools">
          <AttachButton chosen={chosen} />
          <span className="faint">
            <kbd>@</kbd> file <kbd>/</kbd> template or command · paste pictures
          </span>
        </div>
        <div className="start-choices">
          <AgentChoice
            agents={form.choices.agents}
            areKnown={form.choices.areAgentsKnown}
            runners={form.choices.runners}
            agent={form.agent}
            runner={form.runner}
            others={form.others}
            mode={form.mode}
            onChange={form.chooseAgent}
            onOther={form.chooseOther}
          />
          <div className="start-column">
            {form.choices.server && <ModelChoice key={form.agent} known={form.models} model={form.model} usual={form.usualModel} onChange={form.setModel} />}
            <FolderChoice projects={form.projects} folder={form.folder} placeholder={form.usualFolder} onChange={form.setFolder} />
            {!form.runner && <PlaceChoice project={form.project} place={form.place} branch={form.branch} onPlace={form.setPlace} onBranch={form.setBranch} />}
            <AsksChoice abilities={form.abilities} mode={form.mode} onChange={form.setMode} />
            <WallChoice wall={form.wall} isConfined={form.isConfined} onChange={form.setConfined} />
            {isMoreShown && <MoreOptions modes={form.choices.server?.modes ?? []} chosen={form.more} onChange={form.setMore} />}
          </div>
        </div>
        {origin && form.agent && form.agent !== origin.session.agentName && <HandoverNote session={continues} agent={form.agent} />}
        {form.brought && <FolderSettingsNote brought={form.brought} />}
        {form.others && (
          <p className="start-hint">
            {form.count === 1 ? "Tick the agents that shall do the same, each" : `The same prompt for ${form.count} agents, each`}{" "}
            {form.project?.isRepository ? "in a worktree of its own" : "in the same folder"}. To compare many runs with a check, there are <a href={FLEET_ADDRESS}>fleets</a>.
          </p>
        )}
        {trouble && (
          <p className="problem" role="alert">
            {trouble.message} {trouble.hint}
          </p>
        )}
        <div className="start-foot">
          <button type="button" className="quiet" aria-expanded={isMoreShown} onClick={() => setMoreShown(!isMoreShown)}>
            <Icon name="settings" /> More: mode, turns, effort, system prompt
          </button>
          {!continues && (
            <button type="button" className="button" aria-pressed={form.others !== null} onClick={form.toggleSeveral}>
              {form.others ? "Start one" : "Start several…"}
            </button>
          )}
          <button type="submit" className="button primary" disabled={!form.canStart}>
            {form.isStarting ? "Starting…" : form.count > 1 ? `Start ${form.count}` : "Start"} <kbd>Ctrl ↵</kbd>
          </button>
        </div>
      </form>
    </dialog>
  );
}

function OriginNote({ origin: { session }, isPartial }: { origin: Origin; isPartial: boolean }) {
  return (
    <p className="start-hint">
      A new conversation that continues {isPartial ? "what came before this message in" : "all of"}{" "}
      <a href={sessionAddress(session.id)}>{session.title || "the other one"}</a>. That one stays as it is{isPartial ? ", and so do the files that it changed" : ""}.
    </p>
  );
}
