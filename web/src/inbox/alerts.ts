/** Alerts for what needs a person: a notification, a sound, the count in the title and on the icon, an announcement. */

import { useSyncExternalStore } from "react";
import { readStored, store, subscribeStored } from "../shell/stored.js";
import { go, sessionAddress } from "../route.js";
import { inOneLine } from "../text/unseen.js";
import { inboxStore, type Inbox } from "./inbox_store.js";
import { needsYou, works, type InboxRow, type RowAsk } from "./row.js";
import { openAsks, type OpenAsk } from "./sections.js";

export interface AlertChoices {
  readonly needs: boolean;
  readonly sound: boolean;
  readonly ends: boolean;
  readonly count: boolean;
}

const KEY = "harness.calling";
const USUAL: AlertChoices = { needs: true, sound: true, ends: false, count: true };

function choicesIn(text: string | null): AlertChoices {
  try {
    return { ...USUAL, ...(JSON.parse(text ?? "{}") as Partial<AlertChoices>) };
  } catch {
    return USUAL;
  }
}

let known: { text: string | null; choices: AlertChoices } = { text: null, choices: USUAL };

export function alertChoices(): AlertChoices {
  const text = readStored(KEY);
  if (text !== known.text) known = { text, choices: choicesIn(text) };
  return known.choices;
}

export function chooseAlerts(changed: Partial<AlertChoices>): void {
  store(KEY, JSON.stringify({ ...alertChoices(), ...changed }));
  apply();
}

export const canNotify = (): boolean => "Notification" in window && Notification.permission === "granted";

/** Ask the browser for permission; only when a person chooses it. */
export async function askToNotify(): Promise<boolean> {
  if (!("Notification" in window)) return false;
  const answer = await Notification.requestPermission();
  store(KEY, JSON.stringify(alertChoices()));
  return answer === "granted";
}

export function useAlerts(): AlertChoices & { readonly isNotified: boolean } {
  const choices = useSyncExternalStore(subscribeStored, alertChoices);
  return { ...choices, isNotified: choices.needs && canNotify() };
}

/** “Claude Code in shop asks to run a command” */
export function sentence({ row, ask }: OpenAsk): string {
  const where = row.project.name ? ` in ${row.project.name}` : "";
  return inOneLine(`${row.agent || row.agentName || "An agent"}${where} ${asked(ask)}`);
}

function asked({ kind, title }: RowAsk): string {
  if (kind === "question" || kind === "tool") return "asks a question";
  return kind === "plan" ? "asks to review a plan" : `asks to ${title}`;
}

const isInFront = (): boolean => !document.hidden && document.hasFocus();
const listeners = new Set<() => void>();
let announcement = "";
let isStarted = false;

/** The last announcement for a screen reader. */
export function useAnnouncement(): string {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => announcement,
  );
}

/** Once for the page. */
export function startAlerts(): void {
  if (isStarted) return;
  isStarted = true;
  inboxStore().watch((before, after) => {
    apply();
    if (before.isLoaded) raiseAlerts(before, after);
  });
  subscribeStored(apply);
}

function raiseAlerts(before: Inbox, after: Inbox): void {
  const old = new Set(openAsks(before.rows.values()).map(({ key }) => key));
  const asks = openAsks(after.rows.values()).filter(({ key }) => !old.has(key));
  if (asks.length) {
    announcement = asks.length === 1 ? sentence(asks[0]!) : `${asks.length} questions need you`;
    for (const listener of listeners) listener();
  }
  if (isInFront()) return;
  const choices = alertChoices();
  if (asks.length && choices.needs) for (const one of asks.slice(0, 3)) notify(one.key, sentence(one), one.row);
  if (asks.length && choices.sound) sound();
  if (choices.ends)
    for (const row of after.rows.values())
      if (hasEnded(before.rows.get(row.id), row))
        notify(`end ${row.id}`, `${row.agent || row.agentName} ${row.state === "failed" ? "failed" : "is done"}`, row);
}

function hasEnded(before: InboxRow | undefined, row: InboxRow): boolean {
  return !!before && !row.history && (works(before) || needsYou(before)) && !works(row) && !needsYou(row) && row.state !== "interrupted";
}

function notify(tag: string, title: string, row: InboxRow): void {
  if (!canNotify()) return;
  // Several tabs of one browser show one: its tag is the same.
  const note = new Notification(title, { body: inOneLine(row.title), tag, icon: "./favicon.svg" });
  note.onclick = () => {
    window.focus();
    go(sessionAddress(row.id));
    note.close();
  };
}

let audio: AudioContext | null = null;

/** Two short tones, in one tab of this browser. */
function sound(): void {
  const play = async () => {
    audio ??= new AudioContext();
    if (audio.state !== "running") await audio.resume();
    const start = audio.currentTime;
    for (const [index, pitch] of [660, 880].entries()) {
      const [tone, volume] = [audio.createOscillator(), audio.createGain()];
      tone.frequency.value = pitch;
      volume.gain.setValueAtTime(0.0001, start + index * 0.14);
      volume.gain.exponentialRampToValueAtTime(0.08, start + index * 0.14 + 0.02);
      volume.gain.exponentialRampToValueAtTime(0.0001, start + index * 0.14 + 0.13);
      tone.connect(volume).connect(audio.destination);
      tone.start(start + index * 0.14);
      tone.stop(start + index * 0.14 + 0.14);
    }
    await new Promise((done) => setTimeout(done, 1_000));
  };
  void navigator.locks.request("harness.sound", { ifAvailable: true }, (lock) => (lock ? play().catch(() => undefined) : undefined));
}

let title = "Harness";

/** The page's own name; the count comes before it. */
export function setTitle(name: string): void {
  title = name;
  apply();
}

function apply(): void {
  const count = alertChoices().count ? inboxStore().snapshot().counts.needsYou : 0;
  document.title = count ? `(${count}) ${title}` : title;
  badge(count);
}

let drawn = 0;

function badge(count: number): void {
  if (count === drawn) return;
  drawn = count;
  const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (link) link.href = count ? withDot() : "./favicon.svg";
  const badged = navigator as Navigator & { setAppBadge?: (count: number) => Promise<void>; clearAppBadge?: () => Promise<void> };
  void (count ? badged.setAppBadge?.(count) : badged.clearAppBadge?.())?.catch(() => undefined);
}

/** The icon with a dot: a number would be too small to read. */
function withDot(): string {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 32;
  const paint = canvas.getContext("2d");
  if (!paint) return "./favicon.svg";
  paint.fillStyle = "#2b60c8";
  paint.beginPath();
  paint.roundRect(2, 2, 28, 28, 7);
  paint.fill();
  paint.fillStyle = "#fff";
  paint.fillRect(9, 9, 4, 14);
  paint.fillRect(19, 9, 4, 14);
  paint.fillRect(9, 14, 14, 4);
  paint.fillStyle = "#e4a11b";
  paint.beginPath();
  paint.arc(24, 8, 8, 0, 7);
  paint.fill();
  return canvas.toDataURL("image/png");
}
