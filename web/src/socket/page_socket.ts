/**
 * The socket of this page: the inbox, and every conversation that is shown.
 *
 * Every connection begins with the whole inbox, and every subscription with a whole state, so nothing has to be
 * remembered between two connections. Frames are handed on together, once for each frame that is drawn.
 */

import type { ConnectionStatus, HarnessCommand, HarnessState, Socket } from "../../client/src/index.js";
import type { DeltaOperation } from "../../client/src/object_stream.js";
import type { FleetFrame } from "../fleet/fleet_state.js";
import type { InboxCounts, InboxPage, InboxRow, InboxToday } from "../inbox/row.js";

export type SessionFrame =
  | { readonly type: "state"; readonly session: string; readonly state: HarnessState }
  | { readonly type: "delta"; readonly session: string; readonly operations: readonly DeltaOperation[] };

/** Who has answered a question, for all others who saw it. */
export interface AnsweredNote {
  readonly session: string;
  readonly relayId: string;
  readonly by: string;
  readonly action: "approve" | "deny" | "answer";
}

export type InboxFrame =
  | ({ readonly type: "inbox" } & InboxPage)
  | {
      readonly type: "rows";
      readonly changed: readonly InboxRow[];
      readonly removed: readonly string[];
      readonly counts: InboxCounts;
      readonly today?: InboxToday;
      readonly total?: number;
      readonly answered?: readonly AnsweredNote[];
    };

export interface ErrorFrame {
  readonly type: "error";
  readonly message: string;
  readonly code?: string;
  readonly session?: string;
  readonly commandId?: string;
  /** Nothing more comes of this session: it is unknown, or was deleted. */
  readonly isFinal?: boolean;
}

type Frame = SessionFrame | InboxFrame | FleetFrame | ErrorFrame;

export type ClientMessage =
  | { readonly type: "subscribe" | "unsubscribe" | "seen" | "reviewed"; readonly session: string }
  | { readonly type: "subscribeFleet" | "unsubscribeFleet"; readonly fleet: string }
  | { readonly type: "commands"; readonly session: string; readonly commands: readonly HarnessCommand[] };

export interface SocketOptions {
  readonly url: string;
  readonly protocols: () => readonly string[];
  readonly connect?: (url: string, protocols: readonly string[]) => Socket;
  readonly schedule?: (apply: () => void) => () => void;
  readonly onRefused?: () => void;
  readonly now?: () => number;
}

/** What follows one session on the socket. */
export interface SessionListener {
  readonly session: string;
  receive(frames: readonly SessionFrame[]): void;
  refuse(error: ErrorFrame): void;
  disconnected(): void;
}

/** What follows one fleet; with an empty name, the list of all. */
export interface FleetListener {
  readonly fleet: string;
  receive(frame: FleetFrame): void;
}

const OPEN = 1;
const RECONNECT_FIRST_MS = 250;
const RECONNECT_LONGEST_MS = 8_000;
/** Not that of a browser that is logged out: it may be let in again, and then continues. */
const FINAL_CLOSE_CODES: readonly number[] = [1008, 4403];
const CLOSE_UNREADABLE = 4000;

export class PageSocket {
  readonly #options: SocketOptions;
  readonly #sessions = new Set<SessionListener>();
  readonly #fleets = new Set<FleetListener>();
  readonly #listeners = new Set<() => void>();
  readonly #inboxListeners = new Set<(frames: readonly InboxFrame[]) => void>();
  readonly #errorListeners = new Set<(error: ErrorFrame) => void>();
  #status: ConnectionStatus = "connecting";
  #socket: Socket | null = null;
  #incoming: (SessionFrame | InboxFrame | FleetFrame)[] = [];
  #unschedule: (() => void) | null = null;
  #failures = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #closeReason = "";
  #lostSinceMs = 0;
  #heardMs = 0;
  #hasOpened = false;

  constructor(options: SocketOptions) {
    this.#options = options;
    this.#connect();
  }

  get status(): ConnectionStatus {
    return this.#status;
  }

  get closeReason(): string {
    return this.#closeReason;
  }

  /** When the connection was lost; 0 while there is one. */
  get lostSinceMs(): number {
    return this.#lostSinceMs;
  }

  /** When the server was heard last: what is shown is from then. */
  get heardMs(): number {
    return this.#heardMs;
  }

  get hasOpened(): boolean {
    return this.#hasOpened;
  }

  /** Calls `listener` after every change of `status`. */
  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  onInbox(listener: (frames: readonly InboxFrame[]) => void): () => void {
    this.#inboxListeners.add(listener);
    return () => this.#inboxListeners.delete(listener);
  }

  onError(listener: (error: ErrorFrame) => void): () => void {
    this.#errorListeners.add(listener);
    return () => this.#errorListeners.delete(listener);
  }

  /** False: there is no connection, and nothing was sent. */
  send(message: ClientMessage): boolean {
    if (this.#status !== "open" || this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  follow(listener: SessionListener): () => void {
    const isFirst = !this.#isFollowed(listener.session);
    this.#sessions.add(listener);
    if (isFirst) this.send({ type: "subscribe", session: listener.session });
    else this.resubscribe(listener.session);
    return () => {
      this.#sessions.delete(listener);
      if (!this.#isFollowed(listener.session)) this.send({ type: "unsubscribe", session: listener.session });
    };
  }

  /** A subscription begins with the whole fleet, also for a second listener. */
  followFleet(listener: FleetListener): () => void {
    const { fleet } = listener;
    this.#fleets.add(listener);
    this.send({ type: "unsubscribeFleet", fleet });
    this.send({ type: "subscribeFleet", fleet });
    return () => {
      this.#fleets.delete(listener);
      if (![...this.#fleets].some((one) => one.fleet === fleet)) this.send({ type: "unsubscribeFleet", fleet });
    };
  }

  /** What came does not fit what we have: a subscription begins with a whole state. */
  resubscribe(session: string): void {
    this.send({ type: "unsubscribe", session });
    this.send({ type: "subscribe", session });
  }

  /** Connects now instead of when the pause is over: the network came back, or a button was pressed. */
  reconnectNow = (): void => {
    if (this.#status !== "waiting") return;
    this.#failures = 0;
    clearTimeout(this.#retry);
    this.#connect();
  };

  close(): void {
    this.#end("");
  }

  #isFollowed(session: string): boolean {
    return [...this.#sessions].some((one) => one.session === session);
  }

  #connect(): void {
    this.#status = "connecting";
    const make = this.#options.connect ?? ((url: string, protocols: readonly string[]) => new WebSocket(url, [...protocols]) as unknown as Socket);
    const socket = make(this.#options.url, this.#options.protocols());
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#receive(socket, data);
    socket.onclose = ({ code, reason }) => this.#lost(socket, code, reason);
    socket.onerror = () => undefined;
    this.#notify();
  }

  #receive(socket: Socket, data: unknown): void {
    if (socket !== this.#socket) return;
    let frame: Frame;
    try {
      frame = JSON.parse(String(data)) as Frame;
    } catch {
      socket.close(CLOSE_UNREADABLE, "unreadable frame");
      this.#lost(socket, CLOSE_UNREADABLE, "");
      return;
    }
    this.#heardMs = this.#now();
    if (this.#status !== "open") this.#opened();
    if (frame.type === "error") {
      this.#refused(frame);
      return;
    }
    this.#incoming.push(frame);
    if (this.#unschedule) return;
    const { schedule } = this.#options;
    if (!schedule) this.#apply();
    else this.#unschedule = schedule(() => this.#apply());
  }

  #opened(): void {
    this.#status = "open";
    this.#hasOpened = true;
    this.#failures = 0;
    this.#lostSinceMs = 0;
    for (const session of new Set([...this.#sessions].map((one) => one.session))) this.send({ type: "subscribe", session });
    for (const fleet of new Set([...this.#fleets].map((one) => one.fleet))) this.send({ type: "subscribeFleet", fleet });
    this.#notify();
  }

  #refused(error: ErrorFrame): void {
    for (const listener of this.#errorListeners) listener(error);
    for (const one of this.#sessions) if (one.session === error.session) one.refuse(error);
  }

  #apply(): void {
    this.#unschedule = null;
    const frames = this.#incoming;
    this.#incoming = [];
    const ofInbox = frames.filter((frame): frame is InboxFrame => frame.type === "inbox" || frame.type === "rows");
    if (ofInbox.length) for (const listener of this.#inboxListeners) listener(ofInbox);
    for (const one of this.#sessions) {
      const own = frames.filter((frame): frame is SessionFrame => (frame.type === "state" || frame.type === "delta") && frame.session === one.session);
      if (own.length) one.receive(own);
    }
    for (const frame of frames)
      if (frame.type === "fleet" || frame.type === "fleets")
        for (const one of this.#fleets) if (one.fleet === (frame.type === "fleet" ? frame.fleet : "")) one.receive(frame);
  }

  #lost(socket: Socket, code: number, reason: string): void {
    if (socket !== this.#socket) return;
    this.#release();
    if (FINAL_CLOSE_CODES.includes(code)) {
      this.#end(reason || "The server refused the connection.");
      return;
    }
    this.#lostSinceMs ||= this.#now();
    const pause = Math.min(RECONNECT_LONGEST_MS, RECONNECT_FIRST_MS * 2 ** this.#failures);
    this.#failures += 1;
    this.#status = "waiting";
    this.#retry = setTimeout(() => this.#connect(), pause * (0.75 + Math.random() / 2));
    this.#options.onRefused?.();
    this.#notify();
  }

  #release(): void {
    this.#unschedule?.();
    this.#unschedule = null;
    this.#incoming = [];
    if (this.#socket) this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket = null;
    for (const one of this.#sessions) one.disconnected();
  }

  #end(reason: string): void {
    const socket = this.#socket;
    clearTimeout(this.#retry);
    this.#release();
    socket?.close(1000, "");
    this.#status = "closed";
    this.#closeReason = reason;
    this.#notify();
  }

  #now(): number {
    return this.#options.now?.() ?? Date.now();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
