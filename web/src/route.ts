/** Which part of the page is shown is in the address after `#`, so that reloading, going back and sharing work. */

import { useSyncExternalStore } from "react";

export type StateFilter = "" | "needs-you" | "running" | "failed" | "to-review";

/** What the inbox is limited to; empty: to nothing. */
export interface InboxFilter {
  readonly state: StateFilter;
  readonly project: string;
  readonly agent: string;
  readonly tag: string;
}

export type Route =
  | { readonly view: "inbox"; readonly filter: InboxFilter; /** The session whose question fills a narrow screen. */ readonly answering: string }
  | { readonly view: "session"; readonly id: string; readonly areChangesShown: boolean }
  | { readonly view: "review" | "file"; readonly id: string; readonly wanted: URLSearchParams }
  | { readonly view: "new"; readonly continues: string; readonly before: string; /** Another agent is to continue it. */ readonly handsOver: boolean }
  | { readonly view: "fleet"; /** Empty: all of them. */ readonly name: string; readonly wanted: URLSearchParams }
  | { readonly view: "usage" | "settings" };

export const NO_FILTER: InboxFilter = { state: "", project: "", agent: "", tag: "" };
const STATES: ReadonlySet<string> = new Set(["needs-you", "running", "failed", "to-review"]);

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const wanted = new URLSearchParams(query);
  const [, place = "", id = "", part = ""] = path.split("/");
  if (place === "c" && id) {
    const session = decoded(id);
    if (part === "review" || part === "file") return { view: part, id: session, wanted };
    return { view: "session", id: session, areChangesShown: wanted.has("changes") };
  }
  if (place === "new") return { view: "new", continues: wanted.get("continues") ?? "", before: wanted.get("before") ?? "", handsOver: wanted.has("hand-over") };
  if (place === "fleet") return { view: "fleet", name: decoded(id), wanted };
  if (place === "usage" || place === "settings") return { view: place };
  return { view: "inbox", filter: filterIn(wanted), answering: wanted.get("answer") ?? "" };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function filterIn(wanted: URLSearchParams): InboxFilter {
  const state = wanted.get("state") ?? "";
  return {
    state: STATES.has(state) ? (state as StateFilter) : "",
    project: wanted.get("project") ?? "",
    agent: wanted.get("agent") ?? "",
    tag: wanted.get("tag") ?? "",
  };
}

let known: { hash: string; route: Route } | null = null;

function currentRoute(): Route {
  const { hash } = window.location;
  if (hash !== known?.hash) known = { hash, route: parse(hash) };
  return known.route;
}

function subscribe(listener: () => void): () => void {
  window.addEventListener("hashchange", listener);
  return () => window.removeEventListener("hashchange", listener);
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, currentRoute);
}

export const INBOX_ADDRESS = "#/";
export const NEW_ADDRESS = "#/new";
export const USAGE_ADDRESS = "#/usage";
export const FLEET_ADDRESS = "#/fleet";
export const SETTINGS_ADDRESS = "#/settings";

export function inboxAddress(filter: Partial<InboxFilter>, answering = ""): string {
  const wanted = Object.entries({ ...filter, answer: answering }).filter(([, value]) => value);
  return wanted.length ? `${INBOX_ADDRESS}?${new URLSearchParams(wanted)}` : INBOX_ADDRESS;
}

export function sessionAddress(id: string): string {
  return `#/c/${encodeURIComponent(id)}`;
}

/** `wanted`: `case`, `beside`, `a`, `b`; what is empty is left out. */
export function fleetAddress(name: string, wanted: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();
  return `${FLEET_ADDRESS}/${encodeURIComponent(name)}${query && `?${query}`}`;
}

/** The conversation with its changes beside it. */
export function changesAddress(id: string): string {
  return `${sessionAddress(id)}?changes`;
}

/** The changes alone, in full width; `wanted`: `scope`, `file`, `line`. */
export function reviewAddress(id: string, wanted: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(wanted).toString();
  return `${sessionAddress(id)}/review${query && `?${query}`}`;
}

/** A file of the conversation's folder, at a line. */
export function fileAddress(id: string, path: string, line = 0): string {
  return `${sessionAddress(id)}/file?${new URLSearchParams({ path, ...(line > 0 && { line: String(line) }) })}`;
}

/** Of the form for a conversation that continues a session, or what came before a message there. */
export function continuingAddress(continues: string, before = ""): string {
  return `${NEW_ADDRESS}?${new URLSearchParams({ continues, ...(before && { before }) })}`;
}

/** Of the form for a conversation in which another agent continues a session. */
export function handOverAddress(continues: string): string {
  return `${continuingAddress(continues)}&hand-over`;
}

export function go(address: string): void {
  window.location.hash = address;
}
