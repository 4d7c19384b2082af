import { useState, type ReactNode } from "react";
import type { HarnessState } from "../../client/src/index.js";
import { cost, tokens } from "../amounts.js";
import { AgentBadge } from "../inbox/agent_badge.js";
import { ContextUsed, whereOf } from "../inbox/facts.js";
import { useInboxRow } from "../inbox/inbox_store.js";
import { refusedWords, stateWords } from "../inbox/row_state.js";
import type { Replay } from "../replay/replay.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { useConversation } from "./context.js";

interface HeaderProps {
  readonly state: HarnessState;
  /** The agent as the list calls it; empty: unknown. */
  readonly agentTitle: string;
  readonly isLoaded: boolean;
  readonly replay: Replay;
  readonly onMenu: () => void;
  readonly onFind: () => void;
  readonly onPanel: () => void;
  /** What leads to the changes. */
  readonly changes: ReactNode;
}

export function ConversationHeader({ state, agentTitle, isLoaded, replay, onMenu, onFind, onPanel, changes }: HeaderProps) {
  const waits = (state.isLive || state.capabilities.answer) && state.relays.some((relay) => relay.status === "pending");
  const mark = waits ? "waiting" : state.status === "running" ? "running" : state.status === "error" ? "error" : "idle";
  const row = useInboxRow(useConversation().sessionId);
  const facts = [row ? stateWords(row) : "", row ? refusedWords(row) : "", agentTitle || state.agent, state.model, state.mode, row ? whereOf(row) : shortened(state.cwd), row?.history ? `in ${row.history}’s own history` : ""];
  return (
    <header className="header">
      <button type="button" className="quiet round menu-button" onClick={onMenu} aria-label="Show conversations">
        <Icon name="menu" />
      </button>
      <AgentBadge agentName={row?.agentName ?? ""} title={agentTitle || state.agent} />
      <div className="header-text">
        <Title title={isLoaded ? state.title || firstPrompt(state) || "Untitled" : ""} canRename={isLoaded && state.capabilities.submit && !replay.isOn} />
        <p className="header-facts faint">
          {isLoaded && <span className="mark" data-mark={mark} role="img" aria-label={MARKS[mark]} />}
          {facts.filter(Boolean).map(inOneLineCode).map((fact) => (
            <span key={fact} className="clipped" title={fact}>
              {fact}
            </span>
          ))}
        </p>
      </div>
      <div className="header-actions">
        <span className="chip header-usage" title={tokens(state.usage)}>
          {row ? cost(row.costUsd, row.isCostComplete) : cost(state.usage.costUsd)}
        </span>
        {row?.context?.limit ? (
          <span className="chip header-usage">
            <ContextUsed row={row} /> context
          </span>
        ) : null}
        {changes}
        {isLoaded && (
          <button type="button" className="quiet round" onClick={onFind} aria-label="Find in conversation" title="Find in conversation (Ctrl+F)">
            <Icon name="search" />
          </button>
        )}
        {isLoaded && (
          <button type="button" className="quiet round" aria-pressed={replay.isOn} onClick={replay.toggle} aria-label="Replay" title="Replay">
            <Icon name="clock" />
          </button>
        )}
        <button type="button" className="quiet round panel-button" onClick={onPanel} aria-label="Details" title="Tasks, settings and runs">
          <Icon name="panel" />
        </button>
      </div>
    </header>
  );
}

const inOneLineCode = (text: string) => inOneLine(text, "code");

const MARKS = { waiting: "needs you", running: "running", error: "failed", idle: "idle" } as const;

function Title({ title, canRename }: { title: string; canRename: boolean }) {
  const { client } = useConversation();
  const [draft, setDraft] = useState<string | null>(null);
  if (draft === null)
    return (
      <h1 className="title clipped">
        {canRename ? (
          <button type="button" className="plain clipped" onClick={() => setDraft(title)} title="Rename">
            {inOneLine(title)}
          </button>
        ) : (
          inOneLine(title) || "Harness"
        )}
      </h1>
    );
  const save = () => {
    if (draft.trim() && draft !== title) client.rename(draft.trim());
    setDraft(null);
  };
  return (
    <form className="title" onSubmit={(event) => (event.preventDefault(), save())}>
      <input
        value={draft}
        autoFocus
        aria-label="Title"
        onChange={(event) => setDraft(event.target.value)}
        onBlur={save}
        onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), setDraft(null))}
      />
    </form>
  );
}

const PROMPT_SHOWN_MAX = 120;

export function firstPrompt(state: HarnessState): string {
  return (state.messages.find((message) => message.role === "user")?.content ?? "").trim().slice(0, PROMPT_SHOWN_MAX);
}

/** The last two folders of a path. */
function shortened(path: string): string {
  const parts = path.split("/").filter(Boolean);
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : path;
}
