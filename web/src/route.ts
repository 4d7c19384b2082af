/** Which conversation the page shows is in the address after `#`, so that reloading and going back work. */

import { useSyncExternalStore } from "react";

export type Route = { readonly view: "session"; readonly id: string } | { readonly view: "new" };

function parse(hash: string): Route {
  const id = /^#\/session\/([^/?]+)$/.exec(hash)?.[1];
  return id ? { view: "session", id: decodeURIComponent(id) } : { view: "new" };
}

let known: { hash: string; route: Route } = { hash: "", route: { view: "new" } };

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

export function go(address: string): void {
  window.location.hash = address;
}
