/** The places of a narrow screen, at its bottom. */

import { useInbox } from "../inbox/inbox_store.js";
import { INBOX_ADDRESS, NEW_ADDRESS, SETTINGS_ADDRESS, USAGE_ADDRESS, type Route } from "../route.js";
import { NeedsCount } from "../sessions/sidebar.js";
import { Icon, type IconName } from "./icon.js";

const TABS: readonly { readonly view: Route["view"] | "projects"; readonly name: string; readonly icon: IconName; readonly address: string }[] = [
  { view: "inbox", name: "Inbox", icon: "inbox", address: INBOX_ADDRESS },
  { view: "projects", name: "Projects", icon: "list", address: "" },
  { view: "new", name: "New", icon: "plus", address: NEW_ADDRESS },
  { view: "usage", name: "Usage", icon: "usage", address: USAGE_ADDRESS },
  { view: "settings", name: "Settings", icon: "settings", address: SETTINGS_ADDRESS },
];

export function Tabs({ route, onProjects }: { readonly route: Route; readonly onProjects: () => void }) {
  const { counts } = useInbox();
  return (
    <nav className="tabs" aria-label="Main">
      {TABS.map(({ view, name, icon, address }) =>
        view === "projects" ? (
          <button key={view} type="button" onClick={onProjects}>
            <Icon name={icon} /> {name}
          </button>
        ) : (
          <a key={view} href={address} aria-current={route.view === view ? "page" : undefined}>
            <Icon name={icon} /> {name}
            {view === "inbox" && <NeedsCount count={counts.needsYou} />}
          </a>
        ),
      )}
    </nav>
  );
}
