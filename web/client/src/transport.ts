/**
 * The WebSocket side: one state that is kept up to date, commands, and connections that are made again.
 *
 * Every connection begins with a whole state, so nothing has to be remembered between two of them. Commands given
 * while there is no connection wait, in order, and are sent after the next whole state has come.
 */

import type { HarnessCommand } from "./commands.js";
import { applyOperations, type DeltaOperation } from "./object_stream.js";
import { EMPTY_STATE, type HarnessState } from "./state.js";

export type ConnectionStatus = "connecting" | "open" | "waiting" | "closed";

/** What a client needs of a connection, whatever carries it. */
export interface HarnessTransport {
  readonly state: HarnessState;
  send(command: HarnessCommand): void;
}

type Frame =
  | { readonly type: "state"; readonly state: HarnessState }
  | { readonly type: "delta"; readonly operations: readonly DeltaOperation[] }
  | { readonly type: "error"; readonly message: string };

/** The part of the browser's WebSocket that is used here. */
export interface Socket {
  readonly readyState: number;
  onopen: ((event: unknown) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number; reason: string }) => void) | null;
  onerror: ((event: unknown) => void) | null;
  send(data: string): void;
  close(code?: number, reason?: string): void;
}

export interface TransportOptions {
  readonly url: string;
  /** The credential of a browser, whose sockets cannot have headers; called before every connection. */
  readonly protocols?: () => readonly string[];
  /** Makes a socket; the platform's `WebSocket` when absent. */
  readonly connect?: (url: string, protocols: readonly string[]) => Socket;
  /** When to apply what has come: at once when absent; a page passes its animation frame. Returns how to call it off. */
  readonly schedule?: (apply: () => void) => () => void;
  /** First and longest pause before connecting again; each failure doubles it. */
  readonly reconnectFirst_ms?: number;
  readonly reconnectLongest_ms?: number;
  /** How many commands may wait while there is no connection. */
  readonly waitingCommandsMax?: number;
  /** Close codes after which connecting again cannot help (refused, deleted). */
  readonly finalCloseCodes?: readonly number[];
}

const OPEN = 1;
const RECONNECT_FIRST_MS = 250;
const RECONNECT_LONGEST_MS = 8_000;
const WAITING_COMMANDS_MAX = 100;
const FINAL_CLOSE_CODES = [1008, 4401, 4403, 4404] as const;
const CLOSE_DIVERGED = 4000;

/** More commands wait than may: the caller has to decide what to do with this one. */
export class CommandQueueFull extends Error {
  override name = "CommandQueueFull";
}

export class HarnessWebsocketTransport implements HarnessTransport {
  readonly #options: TransportOptions;
  readonly #stateListeners = new Set<() => void>();
  readonly #errorListeners = new Set<(message: string) => void>();
  #state: HarnessState = EMPTY_STATE;
  #status: ConnectionStatus = "connecting";
  #loaded = false;
  #closeReason = "";
  #socket: Socket | null = null;
  #waiting: HarnessCommand[] = [];
  #incoming: Frame[] = [];
  #unschedule: (() => void) | null = null;
  #failures = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #url: string;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#url = options.url;
    this.#connect();
  }

  get state(): HarnessState {
    return this.#state;
  }

  get status(): ConnectionStatus {
    return this.#status;
  }

  /** Whether the server has sent its state at least once; before that `state` is empty. */
  get loaded(): boolean {
    return this.#loaded;
  }

  /** Why the connection is closed for good, in the server's words. */
  get closeReason(): string {
    return this.#closeReason;
  }

  /** Commands that wait for a connection. */
  get waitingCommands(): readonly HarnessCommand[] {
    return this.#waiting;
  }

  /** Calls `listener` after every change of `state`, `status` or `waitingCommands`. */
  subscribe(listener: () => void): () => void {
    this.#stateListeners.add(listener);
    return () => this.#stateListeners.delete(listener);
  }

  /** Calls `listener` with the error of a message that the server refused. */
  onError(listener: (message: string) => void): () => void {
    this.#errorListeners.add(listener);
    return () => this.#errorListeners.delete(listener);
  }

  send(command: HarnessCommand): void {
    if (this.#status === "open" && this.#socket?.readyState === OPEN) {
      this.#transmit([command]);
      return;
    }
    if (this.#status === "closed") throw new CommandQueueFull("The connection is closed: nothing can be sent.");
    const limit = this.#options.waitingCommandsMax ?? WAITING_COMMANDS_MAX;
    if (this.#waiting.length >= limit)
      throw new CommandQueueFull(`There is no connection, and ${limit} commands wait for one already.`);
    this.#waiting = [...this.#waiting, command];
    this.#notify();
  }

  /** Gives up the commands that wait for a connection, and returns them. */
  discardWaiting(): readonly HarnessCommand[] {
    const discarded = this.#waiting;
    this.#waiting = [];
    this.#notify();
    return discarded;
  }

  /** Connects now instead of when the pause is over: the network came back, or a button was pressed. */
  reconnectNow(): void {
    if (this.#status !== "waiting") return;
    this.#failures = 0;
    clearTimeout(this.#retry);
    this.#connect();
  }

  close(): void {
    this.#end("");
  }

  #connect(): void {
    this.#status = "connecting";
    const make =
      this.#options.connect ?? ((url: string, protocols: readonly string[]) => new WebSocket(url, [...protocols]) as unknown as Socket);
    const socket = make(this.#url, this.#options.protocols?.() ?? []);
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
      this.#diverged(socket);
      return;
    }
    if (frame.type === "error") {
      for (const listener of this.#errorListeners) listener(String(frame.message));
      return;
    }
    if (frame.type === "state") this.#incoming = [];
    this.#incoming.push(frame);
    if (this.#unschedule) return;
    const { schedule } = this.#options;
    if (!schedule) this.#apply();
    else this.#unschedule = schedule(() => this.#apply());
  }

  #apply(): void {
    this.#unschedule = null;
    const frames = this.#incoming;
    const socket = this.#socket;
    this.#incoming = [];
    if (!frames.length || !socket) return;
    let state = this.#state;
    let whole = false;
    const operations: DeltaOperation[] = [];
    for (const frame of frames) {
      if (frame.type === "state") [state, whole] = [frame.state, true];
      else if (frame.type === "delta") for (const operation of frame.operations) operations.push(operation);
    }
    try {
      this.#state = applyOperations(state, operations);
    } catch {
      this.#diverged(socket);
      return;
    }
    if (whole) this.#opened();
    this.#notify();
  }

  #opened(): void {
    this.#loaded = true;
    this.#status = "open";
    this.#failures = 0;
    this.#noteSession();
    const waiting = this.#waiting;
    this.#waiting = [];
    if (waiting.length) this.#transmit(waiting);
  }

  /** A conversation that began here is found again under its own id. */
  #noteSession(): void {
    const { sessionId } = this.#state;
    if (!sessionId) return;
    const url = new URL(this.#url);
    url.searchParams.set("session", sessionId);
    this.#url = url.href;
  }

  #transmit(commands: readonly HarnessCommand[]): void {
    this.#socket?.send(JSON.stringify({ type: "commands", commands }));
  }

  /** What came does not fit what we have: a new connection begins with a whole state. */
  #diverged(socket: Socket): void {
    socket.close(CLOSE_DIVERGED, "state diverged");
    this.#lost(socket, CLOSE_DIVERGED, "");
  }

  #lost(socket: Socket, code: number, reason: string): void {
    if (socket !== this.#socket) return;
    this.#release();
    if ((this.#options.finalCloseCodes ?? FINAL_CLOSE_CODES).includes(code)) {
      this.#end(reason || "The server refused the connection.");
      return;
    }
    const first = this.#options.reconnectFirst_ms ?? RECONNECT_FIRST_MS;
    const longest = this.#options.reconnectLongest_ms ?? RECONNECT_LONGEST_MS;
    const pause = Math.min(longest, first * 2 ** this.#failures);
    this.#failures += 1;
    this.#status = "waiting";
    this.#retry = setTimeout(() => this.#connect(), pause * (0.75 + Math.random() / 2));
    this.#notify();
  }

  #release(): void {
    this.#unschedule?.();
    this.#unschedule = null;
    this.#incoming = [];
    if (this.#socket) this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket = null;
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

  #notify(): void {
    for (const listener of this.#stateListeners) listener();
  }
}
