/** The rows that the server sends, always current, and what is made of them for all parts of the page. */

import { useSyncExternalStore } from "react";
import { api } from "../api.js";
import type { AnsweredNote, InboxFrame, PageSocket } from "../socket/page_socket.js";
import { pageSocket } from "../socket/socket.js";
import type { InboxCounts, InboxPage, InboxRow, InboxToday } from "./row.js";

export interface Inbox {
  readonly isLoaded: boolean;
  readonly rows: ReadonlyMap<string, InboxRow>;
  readonly total: number;
  readonly counts: InboxCounts;
  readonly today: InboxToday;
}

const NOTHING: Inbox = {
  isLoaded: false,
  rows: new Map(),
  total: 0,
  counts: { needsYou: 0, running: 0, failed: 0, toReview: 0 },
  today: { costUsd: 0, isCostComplete: true, limitUsd: null, byAgent: [] },
};

/** `answered`: by whom what is not asked any more was answered, as far as the server knows. */
export type InboxChange = (before: Inbox, after: Inbox, answered: readonly AnsweredNote[]) => void;

export class InboxStore {
  readonly #socket: PageSocket;
  readonly #listeners = new Set<() => void>();
  readonly #watchers = new Set<InboxChange>();
  #inbox = NOTHING;

  constructor(socket: PageSocket) {
    this.#socket = socket;
    socket.onInbox((frames) => this.#apply(frames));
  }

  readonly snapshot = (): Inbox => this.#inbox;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Calls `watcher` with what was and what is, before those who only show it. */
  watch(watcher: InboxChange): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** Opened, so that it is not bold any more. */
  markSeen(session: string): void {
    this.#socket.send({ type: "seen", session });
  }

  /** Its changes need no more review. */
  markReviewed(session: string): void {
    this.#socket.send({ type: "reviewed", session });
  }

  /** Older rows than the server sends by itself. */
  async loadMore(limit: number): Promise<void> {
    const page = await api.inbox(limit);
    const rows = new Map(page.rows.map((row) => [row.id, row]));
    for (const [id, row] of this.#inbox.rows) rows.set(id, row);
    this.#become({ ...this.#inbox, rows, total: page.total }, []);
  }

  #apply(frames: readonly InboxFrame[]): void {
    let inbox = this.#inbox;
    const answered: AnsweredNote[] = [];
    for (const frame of frames) {
      if (frame.type === "rows") answered.push(...(frame.answered ?? []));
      inbox = frame.type === "inbox" ? whole(inbox, frame) : changed(inbox, frame);
    }
    this.#become(inbox, answered);
  }

  #become(inbox: Inbox, answered: readonly AnsweredNote[]): void {
    const before = this.#inbox;
    this.#inbox = inbox;
    for (const watcher of this.#watchers) watcher(before, inbox, answered);
    for (const listener of this.#listeners) listener();
  }
}

/** Rows that are as they were stay the same objects: nothing is drawn again for them. */
function whole(before: Inbox, page: InboxPage): Inbox {
  const rows = new Map(page.rows.map((row) => [row.id, sameAs(before.rows.get(row.id), row)]));
  return { isLoaded: true, rows, total: page.total, counts: page.counts, today: page.today };
}

function sameAs(before: InboxRow | undefined, row: InboxRow): InboxRow {
  return before && before.updatedMs === row.updatedMs && JSON.stringify(before) === JSON.stringify(row) ? before : row;
}

function changed(before: Inbox, frame: Extract<InboxFrame, { type: "rows" }>): Inbox {
  const rows = new Map(before.rows);
  let total = before.total;
  for (const row of frame.changed) {
    if (!rows.has(row.id)) total += 1;
    rows.set(row.id, row);
  }
  for (const id of frame.removed) if (rows.delete(id)) total -= 1;
  return { ...before, rows, total: frame.total ?? total, counts: frame.counts, today: frame.today ?? before.today };
}

let shared: InboxStore | null = null;

export function inboxStore(): InboxStore {
  return (shared ??= new InboxStore(pageSocket()));
}

export function useInbox(): Inbox {
  const store = inboxStore();
  return useSyncExternalStore(store.subscribe, store.snapshot);
}

export function useInboxRow(id: string): InboxRow | undefined {
  const store = inboxStore();
  return useSyncExternalStore(store.subscribe, () => store.snapshot().rows.get(id));
}
