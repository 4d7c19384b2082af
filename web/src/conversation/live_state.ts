/** The conversation that the server keeps, followed for as long as it is shown. */

import { useState, useSyncExternalStore } from "react";
import { HarnessClient, type ConnectionStatus, type HarnessState } from "../../client/src/index.js";
import { SessionTransport } from "../socket/session_transport.js";
import { pageSocket } from "../socket/socket.js";

export interface LiveState {
  readonly state: HarnessState;
  readonly connection: ConnectionStatus;
  readonly isLoaded: boolean;
  readonly closeReason: string;
  readonly waitingCommands: number;
}

class LiveStore {
  readonly transport: SessionTransport;
  readonly client: HarnessClient;
  #snapshot: LiveState;

  constructor(sessionId: string) {
    this.transport = new SessionTransport(pageSocket(), sessionId);
    this.client = new HarnessClient({ transport: this.transport });
    this.#snapshot = this.#look();
  }

  #look(): LiveState {
    const { state, status, loaded, closeReason, waitingCommands } = this.transport;
    return { state, connection: status, isLoaded: loaded, closeReason, waitingCommands: waitingCommands.length };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    const stop = this.transport.subscribe(() => {
      this.#snapshot = this.#look();
      listener();
    });
    this.transport.open(); // not when it is made: what is rendered may never be shown
    return () => {
      stop();
      this.transport.close();
    };
  };

  readonly snapshot = (): LiveState => this.#snapshot;
}

export interface LiveConversation extends LiveState {
  readonly client: HarnessClient;
  readonly transport: SessionTransport;
}

/** For a component that lives as long as the session is shown: `sessionId` is read once. */
export function useLiveConversation(sessionId: string): LiveConversation {
  const [store] = useState(() => new LiveStore(sessionId));
  const live = useSyncExternalStore(store.subscribe, store.snapshot);
  return { ...live, client: store.client, transport: store.transport };
}
