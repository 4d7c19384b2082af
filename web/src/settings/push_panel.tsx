import { useEffect, useState } from "react";
import { moment } from "../amounts.js";
import { api, type NotifySettings } from "../api.js";
import { inOneLine } from "../text/unseen.js";

const CHOICES = [
  ["needsYou", "Push when something needs you"],
  ["ended", "Push when a run ends"],
] as const;

/** What the server itself sends, also while no page is open. */
export function PushSettings() {
  const [settings, setSettings] = useState<NotifySettings | null>(null);
  const [message, setMessage] = useState("");
  const fail = (error: Error) => setMessage(error.message);
  useEffect(() => void api.notify().then(setSettings, fail), []);
  if (!settings) return message ? <p className="bad small setting-foot">{message}</p> : null;
  const { needsYou, ended, targets, lastSentMs, lastError } = settings;
  if (!targets.length)
    return (
      <p className="setting-foot small faint">
        <span>
          Push to a phone or a program: <code>harness serve --notify URL</code>.
        </span>
      </p>
    );
  const choose = (name: (typeof CHOICES)[number][0], isOn: boolean) => api.chooseNotify({ needsYou, ended, [name]: isOn }).then(setSettings, fail);
  const test = () => api.testNotify().then(({ problems }) => setMessage(problems.filter(Boolean).join(" ") || "The test arrived."), fail);
  const facts = ["signed", "titles only, no commands, no paths", lastSentMs && `last sent ${moment(lastSentMs)}`, lastError && inOneLine(lastError)];
  return (
    <>
      {CHOICES.map(([name, text]) => (
        <label key={name} className="setting-choice">
          <input type="checkbox" checked={settings[name]} onChange={(event) => void choose(name, event.target.checked)} />
          <span>{text}</span>
        </label>
      ))}
      <div className="setting-foot">
        <span className="small grow">
          <b>Push</b> <code>{targets.map((one) => inOneLine(one, "code")).join(", ")}</code>
          <br />
          <span className="faint">{facts.filter(Boolean).join(" · ")}</span>
        </span>
        <button type="button" className="button small" onClick={() => void test()}>
          Send a test
        </button>
        {message && (
          <span className="small" role="status">
            {message}
          </span>
        )}
      </div>
    </>
  );
}
