/** What is shown of the changes of a conversation is in the address, so that it can be shared. */

import { changesAddress, go, parse, reviewAddress, sessionAddress, useRoute } from "../route.js";

export interface ShownChanges {
  readonly scope: string;
  readonly file: string;
  readonly line: number;
}

export interface ChangesPlace extends ShownChanges {
  /** Nothing, beside the conversation, or in its place: all changes, or one file as it is. */
  readonly kind: "" | "beside" | "review" | "file";
}

export function useChangesPlace(): ChangesPlace {
  const route = useRoute();
  const isInstead = route.view === "review" || route.view === "file";
  const wanted = isInstead ? route.wanted : new URLSearchParams();
  return {
    kind: isInstead ? route.view : route.view === "session" && route.areChangesShown ? "beside" : "",
    scope: wanted.get("scope") ?? "",
    file: wanted.get(route.view === "file" ? "path" : "file") ?? "",
    line: Number(wanted.get("line")) || 0,
  };
}

export function showChanges(id: string, kind: "" | "beside" | "review", shown: Partial<ShownChanges> = {}): void {
  go(kind === "review" ? addressOf(id, shown) : kind ? changesAddress(id) : sessionAddress(id));
}

/** The address has what is looked at, without another entry in the history; not if it leads elsewhere already. */
export function noteShown(id: string, shown: Partial<ShownChanges>): void {
  if (parse(window.location.hash).view !== "review") return;
  window.history.replaceState(window.history.state, "", addressOf(id, shown));
}

function addressOf(id: string, { scope = "", file = "" }: Partial<ShownChanges>): string {
  return reviewAddress(id, { ...(scope && scope !== "conversation" && { scope }), ...(file && { file }) });
}
