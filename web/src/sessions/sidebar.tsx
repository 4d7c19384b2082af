/** Where else one can go: on the inbox it filters, in a conversation it is the inbox in short, in the same order. */

import { useState, type ReactNode } from "react";
import { AgentBadge } from "../inbox/agent_badge.js";
import { RowTime, titleOf } from "../inbox/facts.js";
import { useInbox, type Inbox } from "../inbox/inbox_store.js";
import { needsYou, works, type InboxRow } from "../inbox/row.js";
import { StateSign, stateWords } from "../inbox/row_state.js";
import { agentOf, choicesIn, groupsOf, projectOf, sectionsOf, tagsOf, type Choice } from "../inbox/sections.js";
import { api } from "../api.js";
import {
  FLEET_ADDRESS,
  go,
  INBOX_ADDRESS,
  inboxAddress,
  NEW_ADDRESS,
  NO_FILTER,
  sessionAddress,
  SETTINGS_ADDRESS,
  USAGE_ADDRESS,
  type InboxFilter,
  type Route,
} from "../route.js";
import { Icon, type IconName } from "../shell/icon.js";
import { useTheme } from "../shell/theme.js";
import { useConnection } from "../socket/connection.js";
import { inOneLine } from "../text/unseen.js";

interface SidebarProps {
  readonly route: Route;
  readonly onKeys: () => void;
}

export const PLACES: readonly { readonly view: Route["view"]; readonly name: string; readonly icon: IconName; readonly address: string }[] = [
  { view: "inbox", name: "Inbox", icon: "inbox", address: INBOX_ADDRESS },
  { view: "usage", name: "Usage", icon: "usage", address: USAGE_ADDRESS },
  { view: "fleet", name: "Fleet", icon: "fleet", address: FLEET_ADDRESS },
  { view: "settings", name: "Settings", icon: "settings", address: SETTINGS_ADDRESS },
];

export function Sidebar({ route, onKeys }: SidebarProps) {
  const { theme, toggle } = useTheme();
  const inbox = useInbox();
  const isInConversation = "id" in route;
  return (
    <aside className="side" aria-label="Sidebar">
      <div className="side-head">
        <a className="brand" href={INBOX_ADDRESS}>
          Harness
        </a>
        <button type="button" className="square" onClick={onKeys} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">
          <Icon name="keys" />
        </button>
        <button type="button" className="square" onClick={toggle} aria-label={`Use the ${theme === "dark" ? "light" : "dark"} theme`} title="Light or dark">
          <Icon name={theme === "dark" ? "sun" : "moon"} />
        </button>
      </div>
      <div className="side-new">
        <a className="button primary wide" href={NEW_ADDRESS}>
          <Icon name="plus" /> New conversation <kbd>c</kbd>
        </a>
      </div>
      <nav className="nav" aria-label="Main">
        {PLACES.map(({ view, name, icon, address }) => (
          <a key={view} href={address} aria-current={route.view === view || (view === "inbox" && isInConversation) ? "page" : undefined}>
            <Icon name={icon} /> {name}
            {view === "inbox" && <NeedsCount count={inbox.counts.needsYou} />}
          </a>
        ))}
      </nav>
      <div className="side-scroll" tabIndex={0} role="group" aria-label={isInConversation ? "Conversations" : route.view === "settings" ? "On this page" : "Filters of the inbox"}>
        {isInConversation ? <ShortInbox inbox={inbox} currentId={route.id} /> : route.view === "settings" ? <OnThisPage /> : <Picks inbox={inbox} filter={route.view === "inbox" ? route.filter : NO_FILTER} />}
      </div>
      <Connected inbox={inbox} />
    </aside>
  );
}

export function NeedsCount({ count }: { readonly count: number }) {
  if (!count) return null;
  return (
    <span className="count hot" role="img" aria-label={`${count} ${count === 1 ? "needs" : "need"} you`}>
      {count}
    </span>
  );
}

function Connected({ inbox }: { readonly inbox: Inbox }) {
  const isOpen = useConnection() === "open";
  const live = [...inbox.rows.values()].filter((row) => row.isLive).length;
  return (
    <div className="side-foot" role="status">
      <span className={isOpen ? "online" : "online off"} aria-hidden="true" /> {isOpen ? `Connected · ${live} live` : "Not connected"}
    </div>
  );
}

const SETTINGS: readonly (readonly [string, string])[] = [
  ["settings-notifications", "Notifications"],
  ["settings-grants", "Allowed without asking"],
  ["settings-limits", "Limits"],
  ["settings-logins", "Browsers"],
  ["settings-appearance", "Appearance"],
  ["settings-editor", "Editor"],
];

function OnThisPage() {
  return (
    <>
      <h2>On this page</h2>
      <div className="pick">
        {SETTINGS.map(([id, name]) => (
          <button key={id} type="button" className="pick-more" onClick={() => document.getElementById(id)?.scrollIntoView({ block: "start" })}>
            {name}
          </button>
        ))}
      </div>
    </>
  );
}

const PICKS_SHOWN = 5;

function Picks({ inbox, filter }: { readonly inbox: Inbox; readonly filter: InboxFilter }) {
  const rows = [...inbox.rows.values()];
  return (
    <>
      <PickList title="Projects" of="project" choices={choicesIn(rows, projectOf)} filter={filter} sign={() => <Icon name="folder" />} />
      <PickList
        title="Agents"
        of="agent"
        choices={choicesIn(rows, agentOf)}
        filter={filter}
        sign={({ value, name }) => <AgentBadge agentName={value} title={name} />}
      />
      <PickList title="Tags" of="tag" choices={choicesIn(rows, tagsOf)} filter={filter} sign={() => <span className="faint">#</span>} />
    </>
  );
}

interface PickListProps {
  readonly title: string;
  readonly of: "project" | "agent" | "tag";
  readonly choices: readonly Choice[];
  readonly filter: InboxFilter;
  readonly sign: (choice: Choice) => ReactNode;
}

function PickList({ title, of, choices, filter, sign }: PickListProps) {
  const [isAll, setAll] = useState(false);
  if (!choices.length) return null;
  const shown = isAll ? choices : choices.slice(0, PICKS_SHOWN);
  return (
    <>
      <h2>{title}</h2>
      <div className="pick">
        {shown.map((choice) => {
          const isOn = filter[of] === choice.value;
          return (
            <a
              key={choice.value}
              href={inboxAddress({ ...filter, [of]: isOn ? "" : choice.value })}
              aria-current={isOn ? "true" : undefined}
              title={of === "project" ? choice.value : undefined}
            >
              {sign(choice)}
              <span className="clip">{inOneLine(choice.name, "code")}</span>
              {choice.needsYou && of === "project" ? <NeedsCount count={choice.needsYou} /> : <span className="count">{choice.count}</span>}
            </a>
          );
        })}
        {choices.length > shown.length && (
          <button type="button" className="pick-more" onClick={() => setAll(true)}>
            <Icon name="more" /> {choices.length - shown.length} more
          </button>
        )}
      </div>
    </>
  );
}

const SHORT_EARLIER = 40;

function ShortInbox({ inbox, currentId }: { readonly inbox: Inbox; readonly currentId: string }) {
  const { needsYou: asking, running, earlier } = sectionsOf(inbox.rows.values(), NO_FILTER);
  return (
    <>
      <ShortList title="Needs you" count={asking.length} rows={asking} currentId={currentId} />
      <ShortList title="Running" count={running.length} rows={running} currentId={currentId} />
      {groupsOf(earlier.slice(0, SHORT_EARLIER), "project", Date.now()).map((group) => (
        <ShortList
          key={group.key}
          title={`${inOneLine(group.name, "code")} · ${group.day.toLowerCase()}`}
          rows={group.rows}
          currentId={currentId}
         
        />
      ))}
    </>
  );
}

interface ShortListProps {
  readonly title: string;
  readonly count?: number;
  readonly rows: readonly InboxRow[];
  readonly currentId: string;
}

function ShortList({ title, count, rows, currentId }: ShortListProps) {
  if (!rows.length) return null;
  return (
    <>
      <h2>
        {title} {count !== undefined && <span className={needsYou(rows[0]!) ? "count hot" : "count"}>{count}</span>}
      </h2>
      <div className="slist">
        {rows.map((row) => (
          <div key={row.id} className="splace">
            <a
              className={row.isUnseen ? "srow new" : "srow"}
              href={sessionAddress(row.id)}
              aria-current={row.id === currentId ? "page" : undefined}
              data-session={row.id}
            >
              <StateSign state={row.state} />
              <span className="clip">{titleOf(row)}</span>
              <span className="faint num">
                <RowTime row={row} />
              </span>
              <span className="line">
                <AgentBadge agentName={row.agentName} title={row.agent} />
                <span className={needsYou(row) ? "wait clip" : row.state === "failed" ? "bad clip" : "clip"}>{shortWords(row)}</span>
              </span>
            </a>
            {row.id === currentId && !row.isLive && <DeleteButton id={row.id} />}
          </div>
        ))}
      </div>
    </>
  );
}

function DeleteButton({ id }: { readonly id: string }) {
  const [isSure, setSure] = useState(false);
  const remove = () => {
    if (!isSure) setSure(true);
    else
      api.deleteSession(id).then(
        () => go(INBOX_ADDRESS),
        () => setSure(false),
      );
  };
  return (
    <button
      type="button"
      className="quiet small delete"
      data-sure={isSure || undefined}
      onClick={remove}
      onBlur={() => setSure(false)}
      aria-label={isSure ? "Delete this conversation for good" : "Delete…"}
      title="Delete this conversation"
    >
      {isSure ? "Delete?" : <Icon name="close" />}
    </button>
  );
}

function shortWords(row: InboxRow): string {
  if (needsYou(row))
    return inOneLine(row.asks[0]?.kind === "question" ? "a question" : row.asks[0]?.kind === "plan" ? "a plan" : (row.asks[0]?.title ?? "needs you"));
  if (row.state === "parked") return stateWords(row);
  if (works(row)) return inOneLine(row.state === "background" ? "background job" : (row.lastOperation?.text ?? "running"), "code");
  const words = stateWords(row).replace(/^Failed: /, "");
  return inOneLine(`${words.charAt(0).toLowerCase()}${words.slice(1)}`);
}
