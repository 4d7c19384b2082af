import { useEffect, useRef, useState } from "react";
import { Conversation } from "./conversation/conversation.js";
import { go, NEW_ADDRESS, useRoute } from "./route.js";
import { NewConversation } from "./sessions/new_conversation.js";
import { useSessionList } from "./sessions/session_list.js";
import { Sidebar } from "./sessions/sidebar.js";
import { KeysDialog, useKeys } from "./shell/keys.js";

export function App() {
  const route = useRoute();
  const list = useSessionList();
  const [isDrawerOpen, setDrawerOpen] = useState(false);
  const [areKeysShown, setKeysShown] = useState(false);
  const searchField = useRef<HTMLInputElement>(null);
  const currentId = route.view === "session" ? route.id : "";
  useEffect(() => setDrawerOpen(false), [currentId, route.view]);
  useKeys({
    search: () => {
      setDrawerOpen(true);
      searchField.current?.focus();
    },
    move: moveFocus,
    start: () => go(NEW_ADDRESS),
    stop: () => (isDrawerOpen ? setDrawerOpen(false) : document.querySelector<HTMLButtonElement>("button.stop:not([type=submit])")?.click()),
    help: () => setKeysShown(true),
  });
  const shown = list.sessions.find(({ id }) => id === currentId);
  const agentTitle = shown?.agent || shown?.agentName || "";
  const showDrawer = () => setDrawerOpen(true);
  return (
    <div className="page" data-drawer={isDrawerOpen || undefined}>
      <Sidebar list={list} currentId={currentId} searchField={searchField} onKeys={() => setKeysShown(true)} />
      <div className="shade" onClick={() => setDrawerOpen(false)} aria-hidden="true" />
      {route.view === "session" ? (
        <main className="main">
          <Conversation key={route.id} sessionId={route.id} agentTitle={agentTitle} onMenu={showDrawer} onNews={list.refresh} />
        </main>
      ) : (
        <NewConversation
          key={`${route.continues} ${route.before}`}
          continues={route.continues}
          before={route.before}
          onMenu={showDrawer}
          onStarted={list.refresh}
        />
      )}
      <KeysDialog isOpen={areKeysShown} onClose={() => setKeysShown(false)} />
    </div>
  );
}

/** From the conversation that has the focus, or is shown, to its neighbour in the list. */
function moveFocus(step: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>("a[data-session]")];
  const focused = links.indexOf(document.activeElement as HTMLAnchorElement);
  const shown = links.findIndex((link) => link.getAttribute("aria-current") === "page");
  const from = focused >= 0 ? focused : shown;
  const to = from < 0 ? (step === 1 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, from + step));
  links[to]?.focus();
}
