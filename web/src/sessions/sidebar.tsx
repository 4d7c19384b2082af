import { memo, useEffect, useState, type KeyboardEvent, type RefObject } from "react";
import { api, type RequestFailed, type Session } from "../api.js";
import { ago, money } from "../amounts.js";
import { go, NEW_ADDRESS, sessionAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { useTheme } from "../shell/theme.js";
import { inOneLine } from "../text/unseen.js";
import type { SessionList } from "./session_list.js";

interface SidebarProps {
  readonly list: SessionList;
  readonly currentId: string;
  readonly searchField: RefObject<HTMLInputElement | null>;
  readonly onKeys: () => void;
}

export function Sidebar({ list, currentId, searchField, onKeys }: SidebarProps) {
  const { theme, toggle } = useTheme();
  const [opensFirst, setOpensFirst] = useState(false);
  useEffect(() => {
    if (!opensFirst || !list.isCurrent) return;
    setOpensFirst(false);
    firstLink()?.click();
  }, [opensFirst, list.isCurrent]);
  return (
    <nav className="sidebar" aria-label="Conversations">
      <div className="sidebar-head">
        <a className="brand" href={NEW_ADDRESS}>
          Harness
        </a>
        <button type="button" className="quiet round" onClick={onKeys} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">
          <Icon name="keys" />
        </button>
        <button type="button" className="quiet round" onClick={toggle} aria-label={`Use the ${theme === "dark" ? "light" : "dark"} theme`} title="Light or dark">
          <Icon name={theme === "dark" ? "sun" : "moon"} />
        </button>
        <a className="button primary new-button" href={NEW_ADDRESS} title="New conversation (n)">
          <Icon name="plus" /> New
        </a>
      </div>
      <label className="search">
        <Icon name="search" />
        <input
          ref={searchField}
          type="search"
          value={list.query}
          placeholder="Search"
          aria-label="Search conversations"
          onChange={(event) => list.search(event.target.value)}
          onKeyDown={(event) => onSearchKey(event, list, () => setOpensFirst(true))}
        />
        <kbd aria-hidden="true">/</kbd>
      </label>
      <Sessions list={list} currentId={currentId} searchField={searchField} />
    </nav>
  );
}

/** From the words to what they found: Enter opens the first, the arrows go through the list. */
function onSearchKey(event: KeyboardEvent<HTMLInputElement>, list: SessionList, openFirst: () => void): void {
  if (event.key === "Escape") {
    event.stopPropagation();
    list.search("");
    event.currentTarget.blur();
  } else if (event.key === "ArrowDown") {
    event.preventDefault();
    firstLink()?.focus();
  } else if (event.key === "Enter" && !event.nativeEvent.isComposing && list.query) {
    event.preventDefault();
    openFirst();
  }
}

const firstLink = () => document.querySelector<HTMLAnchorElement>("a[data-session]");

function onListKey(event: KeyboardEvent<HTMLUListElement>, searchField: HTMLInputElement | null): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const links = [...event.currentTarget.querySelectorAll<HTMLAnchorElement>("a[data-session]")];
  const next = links.indexOf(document.activeElement as HTMLAnchorElement) + step;
  if (next < 0) searchField?.focus();
  else links[next]?.focus();
}

function Sessions({ list, currentId, searchField }: Pick<SidebarProps, "list" | "currentId" | "searchField">) {
  if (!list.isLoaded)
    return list.problem ? <ListProblem problem={list.problem} /> : <p className="list-note faint">Loading…</p>;
  return (
    <>
      {list.problem && <ListProblem problem={list.problem} />}
      {!list.sessions.length && (
        <p className="list-note faint">{list.query ? `Nothing found for “${list.query}”.` : "No conversations yet."}</p>
      )}
      <ul
        className="sessions"
        aria-label="Conversations"
        aria-busy={!list.isLoaded}
        onKeyDown={(event) => onListKey(event, searchField.current)}
      >
        {list.sessions.map((session) => (
          <SessionRow key={session.id} session={session} isCurrent={session.id === currentId} onDeleted={list.refresh} />
        ))}
      </ul>
      {list.sessions.length < list.total && (
        <button type="button" className="quiet list-note" onClick={list.showMore}>
          Show more ({list.total - list.sessions.length})
        </button>
      )}
    </>
  );
}

function ListProblem({ problem }: { problem: RequestFailed }) {
  const isRefused = problem.status === 401;
  return (
    <p className="list-note problem" role="alert">
      {isRefused ? "This browser is not logged in. Open the link that “harness serve” prints." : problem.message} {!isRefused && problem.hint}
    </p>
  );
}

/** Being stopped is none of them. */
const FAILURES = new Set(["failed", "timed_out", "stalled", "limit_exceeded", "agent_not_found", "spawn_failed"]);

function markOf(session: Session): { readonly mark: string; readonly label: string } {
  if (session.waits) return { mark: "waiting", label: "waiting for you" };
  if (session.isLive) return { mark: "running", label: "running" };
  return FAILURES.has(session.outcome)
    ? { mark: "error", label: session.outcome.replace("_", " ") }
    : { mark: "idle", label: session.outcome || "idle" };
}

const SessionRow = memo(function SessionRow({ session, isCurrent, onDeleted }: { session: Session; isCurrent: boolean; onDeleted: () => void }) {
  const { mark, label } = markOf(session);
  const title = session.title || session.prompt.trim().split("\n")[0] || "Untitled";
  const agent = session.agent || session.agentName;
  return (
    <li className="session" data-current={isCurrent || undefined}>
      <a href={sessionAddress(session.id)} aria-current={isCurrent ? "page" : undefined} data-session={session.id}>
        <span className="mark" data-mark={mark} role="img" aria-label={label} title={label} />
        <span className="session-title clipped">{inOneLine(title)}</span>
        <span className="session-facts faint">
          {mark === "waiting" && <span className="waits">waiting for you</span>}
          <span className="clipped">{inOneLine(agent)}</span>
          <time dateTime={new Date(session.updatedMs || session.startedMs).toISOString()}>{ago(session.updatedMs || session.startedMs)}</time>
          {session.costUsd !== null && <span>{money(session.costUsd)}</span>}
        </span>
      </a>
      {isCurrent && !session.isLive && <DeleteButton session={session} onDeleted={onDeleted} />}
    </li>
  );
});

function DeleteButton({ session, onDeleted }: { session: Session; onDeleted: () => void }) {
  const [isSure, setSure] = useState(false);
  const remove = () => {
    if (!isSure) {
      setSure(true);
      return;
    }
    api.deleteSession(session.id).then(
      () => {
        go(NEW_ADDRESS);
        onDeleted();
      },
      () => setSure(false),
    );
  };
  return (
    <button type="button" className="quiet small delete" data-sure={isSure || undefined} onClick={remove} onBlur={() => setSure(false)} aria-label={isSure ? "Confirm deletion" : "Delete"} title="Delete">
      {isSure ? "Delete?" : <Icon name="close" />}
    </button>
  );
}
