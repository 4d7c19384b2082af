/** What a conversation does, as a shape, a word and a colour: never by one of them alone. */

import { Icon, type IconName } from "../shell/icon.js";
import { shortTime } from "../amounts.js";
import type { InboxRow, InboxState, RowLimit } from "./row.js";

interface Shown {
  readonly shape: string;
  readonly icon?: IconName;
  readonly tone?: "good" | "bad" | "faint";
  readonly word: string;
}

const SHOWN: { readonly [State in InboxState]: Shown } = {
  "needs-approval": { shape: "ask", word: "Needs you" },
  asks: { shape: "ask", word: "Needs you" },
  running: { shape: "run", word: "Running" },
  background: { shape: "bg", word: "Waits for a background job" },
  parked: { shape: "bg", word: "Waits for a limit" },
  idle: { shape: "idle", word: "Idle" },
  succeeded: { shape: "sign", icon: "check", tone: "good", word: "Done" },
  failed: { shape: "sign", icon: "close", tone: "bad", word: "Failed" },
  interrupted: { shape: "sign", icon: "stop", tone: "faint", word: "Stopped" },
  lost: { shape: "lost", word: "Lost contact" },
};

export function StateSign({ state }: { readonly state: InboxState }) {
  const { shape, icon, tone = "", word } = SHOWN[state] ?? SHOWN.idle;
  return (
    <span className={`state ${shape} ${tone}`} role="img" aria-label={word}>
      {icon && <Icon name={icon} isSmall={icon === "stop"} />}
    </span>
  );
}

/** “2 refused”: calls of the last run that were not allowed; empty: all were. */
export function refusedWords({ refused = 0 }: InboxRow): string {
  return refused ? `${refused.toLocaleString("en")} refused` : "";
}

/** “The window 5 h is full · continues at 15:21 (1 of 2)”. */
function limitWords({ window, resetsAtMs, continuesAtMs, number, most, isUncertain }: RowLimit): string {
  const words = [window ? `The window ${window.replaceAll("_", " ")} is full` : "A limit of its provider is reached"];
  if (continuesAtMs !== null) words.push(`continues at ${shortTime(continuesAtMs)} (${number} of ${most})`);
  else if (resetsAtMs !== null) words.push(`it opens at ${shortTime(resetsAtMs)}`);
  if (isUncertain) words.push("it was to continue, and its process died: look whether it did");
  return words.join(" · ");
}

/** “Failed: timed out after 30 min”, “Lost contact: …”, “Done”. */
export function stateWords({ state, failure, limit }: InboxRow): string {
  const { word } = SHOWN[state] ?? SHOWN.idle;
  if (state === "parked" && limit) return limitWords(limit);
  if (!failure?.text || !(state === "failed" || state === "lost" || state === "interrupted")) return word;
  const isSaid = failure.text.toLowerCase().startsWith(word.toLowerCase());
  const why = failure.hint ? `${failure.text.replace(/\.$/, "")}. ${failure.hint}` : failure.text;
  const said = isSaid ? why : `${word}: ${why}`;
  return limit && state === "failed" ? `${said.replace(/\.$/, "")} · ${limitWords(limit)}` : said;
}
