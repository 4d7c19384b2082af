/** The worker that all tabs share. */

import type { Socket } from "../../client/src/index.js";
import { SharedHub, type FromTab } from "./shared_hub.js";

const hub = new SharedHub((url, protocols) => new WebSocket(url, [...protocols]) as unknown as Socket);

(globalThis as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = ({ ports: [tab] }) => {
  tab!.onmessage = ({ data }: MessageEvent<FromTab>) => {
    hub.receive(tab!, data);
    // A tab that is closed or crashes sends nothing, but it no longer holds its lock.
    if (data.kind === "open") void navigator.locks.request(data.lock, () => hub.leave(tab!));
  };
};
