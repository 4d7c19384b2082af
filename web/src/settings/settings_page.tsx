/** What this browser and this machine remember: being called, what is allowed, what it may cost, who is logged in, how it looks. */

import { useEffect, useState } from "react";
import { askToNotify, canNotify, chooseAlerts, setTitle, useAlerts, type AlertChoices } from "../inbox/alerts.js";
import { EditorSetting } from "../files/editor.js";
import { useStored } from "../shell/stored.js";
import { useTheme, type ThemeChoice } from "../shell/theme.js";
import "../style/settings.css";
import { GrantsPanel } from "./grants_panel.js";
import { LimitsPanel } from "./limits_panel.js";
import { LoginsPanel } from "./logins_panel.js";
import { PushSettings } from "./push_panel.js";

export function SettingsPage() {
  useEffect(() => setTitle("Settings – Harness"), []);
  return (
    <main className="main">
      <header className="bar">
        <h1>Settings</h1>
        <span className="small faint">stored on this machine</span>
      </header>
      <div className="scroll" tabIndex={0} role="group" aria-label="Settings">
        <div className="page-column">
          <Notifications />
          <GrantsPanel />
          <LimitsPanel />
          <LoginsPanel />
          <Appearance />
          <EditorSetting />
        </div>
      </div>
    </main>
  );
}

const CHOICES: readonly (readonly [keyof AlertChoices, string, string])[] = [
  ["needs", "Notification when something needs you", "only while the page is not in front"],
  ["sound", "Sound when something needs you", ""],
  ["ends", "Notification when a run ends", ""],
  ["count", "Count in the title and on the icon", ""],
];

function Notifications() {
  const calling = useAlerts();
  const [isRefused, setRefused] = useState(false);
  const choose = async (name: keyof AlertChoices, isOn: boolean) => {
    chooseAlerts({ [name]: isOn });
    if (isOn && (name === "needs" || name === "ends") && !canNotify()) setRefused(!(await askToNotify()));
  };
  const isAsked = (calling.needs || calling.ends) && !canNotify();
  return (
    <section className="setting-panel" aria-labelledby="settings-notifications">
      <h2 id="settings-notifications">Notifications</h2>
      {CHOICES.map(([name, text, note]) => (
        <label key={name} className="setting-choice">
          <input type="checkbox" checked={calling[name]} onChange={(event) => void choose(name, event.target.checked)} />
          <span>
            {text} {note && <span className="faint small">{note}</span>}
          </span>
        </label>
      ))}
      {isAsked && (
        <p className="setting-foot">
          <span className="small faint grow">
            {isRefused ? "The browser refuses notifications of this page; its own settings can change that." : "The browser has not been asked yet."}
          </span>
          <button type="button" className="button small" onClick={() => void askToNotify().then((isAllowed) => setRefused(!isAllowed))}>
            Allow notifications
          </button>
        </p>
      )}
      <PushSettings />
    </section>
  );
}

const THEMES: readonly (readonly [ThemeChoice, string])[] = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

function Appearance() {
  const { choice, choose } = useTheme();
  const [density, setDensity] = useStored("harness.density");
  const isCompact = density === "compact";
  useEffect(() => {
    if (isCompact) document.documentElement.dataset["density"] = "compact";
    else delete document.documentElement.dataset["density"];
  }, [isCompact]);
  return (
    <section className="setting-panel" aria-labelledby="settings-appearance">
      <h2 id="settings-appearance">Appearance</h2>
      <div className="setting-row">
        <div className="segments" role="group" aria-label="Theme">
          {THEMES.map(([name, text]) => (
            <button key={name} type="button" aria-pressed={choice === name} onClick={() => choose(name)}>
              {text}
            </button>
          ))}
        </div>
        <div className="segments" role="group" aria-label="Density">
          <button type="button" aria-pressed={!isCompact} onClick={() => setDensity("comfortable")}>
            Comfortable
          </button>
          <button type="button" aria-pressed={isCompact} onClick={() => setDensity("compact")}>
            Compact
          </button>
        </div>
      </div>
    </section>
  );
}
