/** The conversation that the server keeps, followed for as long as it is shown. */

import { useEffect, useState, useSyncExternalStore } from "react";
import { HarnessClient, HarnessWebsocketTransport, type ConnectionStatus, type HarnessState } from "../../client/src/index.js";
import { socketUrl } from "../api.js";
import { checkLogin, login } from "../login.js";

export interface LiveState {
  readonly state: HarnessState;
  readonly connection: ConnectionStatus;
  readonly isLoaded: boolean;
  readonly closeReason: string;
  readonly waitingCommands: number;
}

/** A hidden page draws no frames; it still has to keep up with what comes. */
const HIDDEN_PAUSE_MS = 500;

/** Not that of a browser that is logged out: it may be let in again, and then goes on. */
const FINAL_CLOSE_CODES = [1008, 4403, 4404] as const;

function onNextFrame(apply: () => void): () => void {
  let frame = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const cancel = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
  const once = () => {
    cancel();
    apply();
  };
  frame = requestAnimationFrame(once);
  timer = setTimeout(once, HIDDEN_PAUSE_MS);
  return cancel;
}

class LiveStore {
  readonly transport: HarnessWebsocketTransport;
  readonly client: HarnessClient;
  #snapshot: LiveState;

  constructor(sessionId: string) {
    this.transport = new HarnessWebsocketTransport({
      url: socketUrl(sessionId),
      protocols: login.protocols,
      schedule: onNextFrame,
      finalCloseCodes: FINAL_CLOSE_CODES,
    });
    this.client = new HarnessClient({ transport: this.transport });
    this.#snapshot = this.#look();
  }

  #look(): LiveState {
    const { state, status, loaded, closeReason, waitingCommands } = this.transport;
    return { state, connection: status, isLoaded: loaded, closeReason, waitingCommands: waitingCommands.length };
  }

  readonly subscribe = (listener: () => void): (() => void) =>
    this.transport.subscribe(() => {
      this.#snapshot = this.#look();
      listener();
    });

  readonly snapshot = (): LiveState => this.#snapshot;
}

export interface LiveConversation extends LiveState {
  readonly client: HarnessClient;
  readonly transport: HarnessWebsocketTransport;
}

/** For a component that lives as long as the session is shown: `sessionId` is read once. */
export function useLiveConversation(sessionId: string): LiveConversation {
  const [store] = useState(() => new LiveStore(sessionId));
  useEffect(() => {
    const hurry = () => store.transport.reconnectNow();
    const stopLogin = login.subscribe(() => login.status() === "in" && hurry());
    // A socket that is refused does not say why.
    const stopWatching = store.transport.subscribe(() => store.transport.status === "waiting" && void checkLogin());
    window.addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
    return () => {
      window.removeEventListener("online", hurry);
      document.removeEventListener("visibilitychange", hurry);
      stopLogin();
      stopWatching();
      store.transport.close();
    };
  }, [store]);
  const live = useSyncExternalStore(store.subscribe, store.snapshot);
  return { ...live, client: store.client, transport: store.transport };
}
