import { useSyncExternalStore } from "react";
import type { ConnectionStatus } from "../../client/src/index.js";
import { pageSocket } from "./socket.js";

export function useConnection(): ConnectionStatus {
  const socket = pageSocket();
  return useSyncExternalStore(socket.subscribe, () => socket.status);
}
