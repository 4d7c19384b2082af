/**
 * One connection for all tabs of a browser: it runs in a worker that they share.
 *
 * A tab that joins later gets the inbox as it is now; what is subscribed to once is sent to every tab that asked for it.
 * When the connection is lost all tabs are notified, and the first that connects again connects them all.
 */

import type { Socket } from "../../client/src/index.js";
import type { InboxPage, InboxRow } from "../inbox/row.js";
import type { ErrorFrame, InboxFrame, SessionFrame } from "./page_socket.js";

export type FromTab =
  | { readonly kind: "open"; readonly url: string; readonly protocols: readonly string[]; /** Held while the tab lives. */ readonly lock: string }
  | { readonly kind: "send"; readonly data: string }
  | { readonly kind: "close" };

export type ToTab =
  | { readonly kind: "joined" }
  | { readonly kind: "message"; readonly data: string }
  | { readonly kind: "closed"; readonly code: number; readonly reason: string };

/** What tabs send to the server: `docs/protocol.md`. */
interface Message {
  readonly type: string;
  readonly session?: string;
  readonly fleet?: string;
  readonly commands?: readonly object[];
}

export interface Tab {
  postMessage(message: ToTab): void;
}

const OPEN = 1;
const COMMANDS_MAX = 500;

export class SharedHub {
  readonly #connect: (url: string, protocols: readonly string[]) => Socket;
  /** What each tab has subscribed to, and the message that ends it. */
  readonly #tabs = new Map<Tab, Map<string, Message>>();
  /** Which tab gave a command, so that a refusal is shown there alone. */
  readonly #commands = new Map<string, Tab>();
  #socket: Socket | null = null;
  #inbox: (Omit<InboxPage, "rows"> & { readonly rows: Map<string, InboxRow> }) | null = null;

  constructor(connect: (url: string, protocols: readonly string[]) => Socket) {
    this.#connect = connect;
  }

  receive(tab: Tab, message: FromTab): void {
    if (message.kind === "open") this.#join(tab, message.url, message.protocols);
    else if (message.kind === "close") this.leave(tab);
    else this.#send(tab, message.data);
  }

  /** It was closed, or has disconnected. */
  leave(tab: Tab): void {
    const topics = this.#tabs.get(tab) ?? new Map<string, Message>();
    this.#tabs.delete(tab);
    for (const [topic, end] of topics) if (!this.#isFollowed(topic)) this.#up(end);
    for (const [id, owner] of this.#commands) if (owner === tab) this.#commands.delete(id);
    if (this.#tabs.size || !this.#socket) return;
    const socket = this.#socket;
    this.#forget();
    socket.close(1000, "");
  }

  #join(tab: Tab, url: string, protocols: readonly string[]): void {
    this.#tabs.set(tab, new Map());
    tab.postMessage({ kind: "joined" });
    if (this.#inbox) tab.postMessage({ kind: "message", data: JSON.stringify({ type: "inbox", ...this.#inbox, rows: [...this.#inbox.rows.values()] }) });
    if (this.#socket) return;
    const socket = this.#connect(url, protocols);
    this.#socket = socket;
    socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(String(data));
    socket.onclose = ({ code, reason }) => socket === this.#socket && this.#lost(code, reason);
  }

  #send(tab: Tab, data: string): void {
    const message = JSON.parse(data) as Message;
    const own = this.#tabs.get(tab);
    if (!own) return;
    const topic = message.session ?? `fleet ${message.fleet ?? ""}`;
    if (message.type.startsWith("subscribe")) {
      const end = { ...message, type: `un${message.type}` };
      // A subscription begins with a whole state, which this tab needs.
      if (this.#isFollowed(topic)) this.#up(end);
      own.set(topic, end);
      this.#up(message);
    } else if (message.type.startsWith("unsubscribe")) {
      own.delete(topic);
      if (!this.#isFollowed(topic)) this.#up(message);
    } else {
      this.#note(tab, message.commands ?? []);
      this.#up(message);
    }
  }

  #note(tab: Tab, commands: readonly object[]): void {
    for (const command of commands) if ("id" in command && typeof command.id === "string") this.#commands.set(command.id, tab);
    for (const id of [...this.#commands.keys()].slice(0, Math.max(0, this.#commands.size - COMMANDS_MAX))) this.#commands.delete(id);
  }

  #isFollowed(topic: string): boolean {
    return [...this.#tabs.values()].some((topics) => topics.has(topic));
  }

  #up(message: Message): void {
    if (this.#socket?.readyState === OPEN) this.#socket.send(JSON.stringify(message));
  }

  #receive(data: string): void {
    let frame: SessionFrame | InboxFrame | ErrorFrame | null = null;
    try {
      frame = JSON.parse(data) as SessionFrame | InboxFrame | ErrorFrame;
    } catch {
      // Each tab reports itself that it cannot be read.
    }
    if (frame?.type === "inbox") this.#inbox = { ...frame, rows: new Map(frame.rows.map((row) => [row.id, row])) };
    else if (frame?.type === "rows") this.#apply(frame);
    for (const tab of this.#meant(frame)) tab.postMessage({ kind: "message", data });
  }

  #apply({ changed, removed, counts, today, total }: Extract<InboxFrame, { type: "rows" }>): void {
    if (!this.#inbox) return;
    for (const row of changed) this.#inbox.rows.set(row.id, row);
    for (const id of removed) this.#inbox.rows.delete(id);
    this.#inbox = { ...this.#inbox, counts, ...(today && { today }), ...(total !== undefined && { total }) };
  }

  #meant(frame: SessionFrame | InboxFrame | ErrorFrame | null): readonly Tab[] {
    const all = [...this.#tabs.keys()];
    if (!frame || frame.type === "inbox" || frame.type === "rows") return all;
    const owner = frame.type === "error" && frame.commandId ? this.#commands.get(frame.commandId) : undefined;
    if (owner) return [owner];
    return frame.session ? all.filter((tab) => this.#tabs.get(tab)!.has(frame.session!)) : all;
  }

  #lost(code: number, reason: string): void {
    const tabs = [...this.#tabs.keys()];
    this.#forget();
    this.#tabs.clear();
    for (const tab of tabs) tab.postMessage({ kind: "closed", code, reason });
  }

  #forget(): void {
    if (this.#socket) this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket = this.#inbox = null;
    this.#commands.clear();
  }
}
