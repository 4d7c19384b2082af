/** Which conversation the page shows is in the address after `#`, so that reloading and going back work. */

import { useSyncExternalStore } from "react";

export type Route =
  | { readonly view: "session"; readonly id: string }
  | { readonly view: "new"; readonly continues: string; readonly before: string };

function parse(hash: string): Route {
  const id = /^#\/session\/([^/?]+)(?:\?.*)?$/.exec(hash)?.[1];
  if (id) return { view: "session", id: decodeURIComponent(id) };
  const wanted = new URLSearchParams(/^#\/new\?(.*)$/.exec(hash)?.[1] ?? "");
  return { view: "new", continues: wanted.get("continues") ?? "", before: wanted.get("before") ?? "" };
}

let known: { hash: string; route: Route } = { hash: "", route: parse("") };

function currentRoute(): Route {
  const { hash } = window.location;
  if (hash !== known.hash) known = { hash, route: parse(hash) };
  return known.route;
}

function subscribe(listener: () => void): () => void {
  window.addEventListener("hashchange", listener);
  return () => window.removeEventListener("hashchange", listener);
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, currentRoute);
}

export function sessionAddress(id: string): string {
  return `#/session/${encodeURIComponent(id)}`;
}

export const NEW_ADDRESS = "#/new";

/** Of the form for a conversation that goes on with a session, or with what was said before a message there. */
export function continuingAddress(continues: string, before = ""): string {
  return `${NEW_ADDRESS}?${new URLSearchParams({ continues, ...(before && { before }) })}`;
}

export function go(address: string): void {
  window.location.hash = address;
}
