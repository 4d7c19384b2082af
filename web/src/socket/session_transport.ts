/** One conversation on the page's socket: its current state, and its commands. */

import { applyOperations, type DeltaOperation } from "../../client/src/object_stream.js";
import { CommandQueueFull, EMPTY_STATE, type ConnectionStatus, type HarnessCommand, type HarnessState, type HarnessTransport } from "../../client/src/index.js";
import type { ErrorFrame, PageSocket, SessionFrame, SessionListener } from "./page_socket.js";

const WAITING_COMMANDS_MAX = 100;
/** An answer is about what was shown: one that cannot be sent now is never sent later. */
const NOW_OR_NEVER: ReadonlySet<HarnessCommand["type"]> = new Set(["approve", "deny", "answer"]);

export class SessionTransport implements HarnessTransport, SessionListener {
  readonly session: string;
  readonly #socket: PageSocket;
  readonly #stateListeners = new Set<() => void>();
  readonly #errorListeners = new Set<(message: string) => void>();
  #state: HarnessState = EMPTY_STATE;
  #isLoaded = false;
  #isCurrent = false;
  #isOver = false;
  #closeReason = "";
  #waiting: readonly HarnessCommand[] = [];
  #leave: (() => void) | null = null;
  #stopWatching: (() => void) | null = null;

  constructor(socket: PageSocket, session: string) {
    this.#socket = socket;
    this.session = session;
  }

  get state(): HarnessState {
    return this.#state;
  }

  get status(): ConnectionStatus {
    if (this.#isOver) return "closed";
    const { status } = this.#socket;
    return status === "open" && !this.#isCurrent ? "connecting" : status;
  }

  get loaded(): boolean {
    return this.#isLoaded;
  }

  get closeReason(): string {
    return this.#closeReason || this.#socket.closeReason;
  }

  get waitingCommands(): readonly HarnessCommand[] {
    return this.#waiting;
  }

  subscribe(listener: () => void): () => void {
    this.#stateListeners.add(listener);
    return () => this.#stateListeners.delete(listener);
  }

  onError(listener: (message: string) => void): () => void {
    this.#errorListeners.add(listener);
    return () => this.#errorListeners.delete(listener);
  }

  send(command: HarnessCommand): void {
    if (this.status === "open" && this.#transmit([command])) return;
    if (this.status === "closed") throw new CommandQueueFull("The connection is closed: nothing can be sent.");
    if (NOW_OR_NEVER.has(command.type)) {
      this.#say("There is no connection, so the answer was not sent. Look again when it is back.");
      return;
    }
    if (this.#waiting.length >= WAITING_COMMANDS_MAX)
      throw new CommandQueueFull(`There is no connection, and ${WAITING_COMMANDS_MAX} commands wait for one already.`);
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

  reconnectNow(): void {
    this.#socket.reconnectNow();
  }

  /** Follow the session: after this it has a state, until `close`. */
  open(): void {
    if (this.#leave) return;
    this.#leave = this.#socket.follow(this);
    this.#stopWatching = this.#socket.subscribe(() => this.#notify());
  }

  close(): void {
    this.#leave?.();
    this.#stopWatching?.();
    this.#leave = this.#stopWatching = null;
    this.#isCurrent = false;
  }

  receive(frames: readonly SessionFrame[]): void {
    let state = this.#state;
    let isWhole = false;
    let operations: DeltaOperation[] = [];
    for (const frame of frames) {
      if (frame.type === "state") [state, isWhole, operations] = [frame.state, true, []];
      else operations.push(...frame.operations);
    }
    if (!isWhole && !this.#isCurrent) return; // of a subscription that has ended
    try {
      this.#state = applyOperations(state, operations);
    } catch {
      this.#isCurrent = false;
      this.#socket.resubscribe(this.session);
      return;
    }
    if (isWhole) this.#opened();
    this.#notify();
  }

  refuse(error: ErrorFrame): void {
    if (error.isFinal || (!this.#isLoaded && !error.commandId)) {
      this.#isOver = true;
      this.#closeReason = error.message;
      this.#notify();
    } else this.#say(error.message);
  }

  disconnected(): void {
    this.#isCurrent = false;
  }

  #opened(): void {
    this.#isLoaded = this.#isCurrent = true;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (waiting.length) this.#transmit(waiting);
  }

  #transmit(commands: readonly HarnessCommand[]): boolean {
    return this.#socket.send({ type: "commands", session: this.session, commands });
  }

  #say(message: string): void {
    for (const listener of this.#errorListeners) listener(message);
  }

  #notify(): void {
    for (const listener of this.#stateListeners) listener();
  }
}
