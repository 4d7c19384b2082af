/** The frame: where one can go, and what is shown there. What the first screen does not need is loaded when it is shown. */

import { lazy, Suspense, useCallback, useEffect, useRef, useState, type RefObject } from "react";
import { startAlerts, useAnnouncement } from "./inbox/alerts.js";
import { Home } from "./inbox/home.js";
import { inboxStore, useInboxRow } from "./inbox/inbox_store.js";
import { isToReview } from "./inbox/sections.js";
import { FLEET_ADDRESS, go, INBOX_ADDRESS, NEW_ADDRESS, NO_FILTER, USAGE_ADDRESS, useRoute, type Route } from "./route.js";
import { KeysDialog, useKeys } from "./shell/keys.js";
import { useNarrow } from "./shell/media.js";
import { Tabs } from "./shell/tabs.js";
import { Sidebar } from "./sessions/sidebar.js";

const Conversation = lazy(() => import("./conversation/page.js").then((module) => ({ default: module.Conversation })));
const StartDialog = lazy(() => import("./start/start_dialog.js").then((module) => ({ default: module.StartDialog })));
const FleetPage = lazy(() => import("./fleet/fleet_page.js").then((module) => ({ default: module.FleetPage })));
const UsagePage = lazy(() => import("./usage/usage_page.js").then((module) => ({ default: module.UsagePage })));
const SettingsPage = lazy(() => import("./settings/settings_page.js").then((module) => ({ default: module.SettingsPage })));

/** Pages that leave by themselves, or are not left. */
const NO_ESCAPE: ReadonlySet<Route["view"]> = new Set(["inbox", "file", "fleet"]);

export function App() {
  const route = useRoute();
  const isNarrow = useNarrow();
  const [isDrawerOpen, setDrawerOpen] = useState(false);
  const [areKeysShown, setKeysShown] = useState(false);
  const searchField = useRef<HTMLInputElement>(null);
  useEffect(startAlerts, []);
  useEffect(() => setDrawerOpen(false), [route]);
  const [under, closeStart] = useUnder(route);
  const isAnswering = route.view === "inbox" && !!route.answering;
  useKeys({
    c: () => go(NEW_ADDRESS),
    "/": () => searchWhenShown(searchField),
    "g i": () => go(INBOX_ADDRESS),
    "g u": () => go(USAGE_ADDRESS),
    "g f": () => go(FLEET_ADDRESS),
    "?": () => setKeysShown(true),
    m: () => document.querySelector<HTMLTextAreaElement>(".composer-input")?.focus(),
    Escape: () => (isDrawerOpen ? setDrawerOpen(false) : NO_ESCAPE.has(route.view) ? false : go(INBOX_ADDRESS)),
  });
  return (
    <div className="frame" data-drawer={isDrawerOpen || undefined}>
      <Sidebar route={route} onKeys={() => setKeysShown(true)} />
      <div className="shade" onClick={() => setDrawerOpen(false)} aria-hidden="true" />
      <Suspense fallback={<main className="main" aria-busy="true" />}>
        <Shown route={under} searchField={searchField} onMenu={() => setDrawerOpen(true)} />
      </Suspense>
      {route.view === "new" && (
        <Suspense fallback={null}>
          <StartDialog key={`${route.continues} ${route.before}`} continues={route.continues} before={route.before} handsOver={route.handsOver} onClose={closeStart} />
        </Suspense>
      )}
      {isNarrow && !("id" in route) && !isAnswering && <Tabs route={route} onProjects={() => setDrawerOpen(true)} />}
      <KeysDialog isOpen={areKeysShown} onClose={() => setKeysShown(false)} />
      <Announcement />
    </div>
  );
}

type Page = Exclude<Route, { readonly view: "new" }>;

/** What a new conversation's dialog lies over, and the way back to it. */
function useUnder(route: Route): readonly [Page, () => void] {
  const last = useRef<{ readonly page: Page; readonly address: string }>({ page: { view: "inbox", filter: NO_FILTER, answering: "" }, address: INBOX_ADDRESS });
  if (route.view !== "new") last.current = { page: route, address: window.location.hash || INBOX_ADDRESS };
  const close = useCallback(() => {
    if (window.location.hash.startsWith(NEW_ADDRESS)) go(last.current.address);
  }, []);
  return [last.current.page, close];
}

const FRAMES_MAX = 60;

/** The search is on the inbox, which may have to be drawn first. */
function searchWhenShown(field: RefObject<HTMLInputElement | null>): void {
  if (field.current) return field.current.focus(); // at once: the next key is part of the word
  go(INBOX_ADDRESS);
  let frames = 0;
  const focus = () => {
    if (field.current) field.current.focus();
    else if (++frames < FRAMES_MAX) requestAnimationFrame(focus);
  };
  requestAnimationFrame(focus);
}

interface ShownProps {
  readonly route: Page;
  readonly searchField: RefObject<HTMLInputElement | null>;
  readonly onMenu: () => void;
}

function Shown({ route, searchField, onMenu }: ShownProps) {
  switch (route.view) {
    case "inbox":
      return <Home filter={route.filter} answering={route.answering} searchField={searchField} />;
    case "session":
    case "review":
    case "file":
      return <ShownConversation key={route.id} id={route.id} onMenu={onMenu} />;
    case "settings":
      return <SettingsPage />;
    case "fleet":
      return <FleetPage name={route.name} wanted={route.wanted} />;
    case "usage":
      return <UsagePage />;
  }
}

const nothing = () => undefined;

function ShownConversation({ id, onMenu }: { readonly id: string; readonly onMenu: () => void }) {
  const row = useInboxRow(id);
  const isNew = !!row && (row.isUnseen || isToReview(row));
  useEffect(() => (isNew ? inboxStore().markSeen(id) : undefined), [id, isNew]);
  return (
    <main className="main">
      <Conversation sessionId={id} agentTitle={row?.agent || row?.agentName || ""} onMenu={onMenu} onNews={nothing} />
    </main>
  );
}

/** One sentence when something needs you: never the whole list again. */
function Announcement() {
  const announcement = useAnnouncement();
  return (
    <p className="unseen" role="status" aria-live="polite" data-announced>
      {announcement}
    </p>
  );
}
