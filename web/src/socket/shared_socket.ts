/** A connection by the worker that all tabs share, where there can be one; else one of this tab alone. */

import type { Socket } from "../../client/src/index.js";
import type { FromTab, ToTab } from "./shared_hub.js";

const [CONNECTING, OPEN, CLOSED] = [0, 1, 3];
const LOST = 1006;
const JOINED_WITHIN_MS = 3_000;

let canShare = typeof SharedWorker === "function" && typeof navigator.locks === "object";
let known: { readonly port: MessagePort; readonly lock: string } | null = null;

export function connectShared(url: string, protocols: readonly string[]): Socket {
  return canShare ? new SharedSocket(url, protocols) : (new WebSocket(url, [...protocols]) as unknown as Socket);
}

/** The worker, and a lock that shows that this tab lives. */
async function joined(onBroken: () => void): Promise<{ readonly port: MessagePort; readonly lock: string }> {
  if (known) return known;
  const worker = new SharedWorker(new URL("./shared_worker.ts", import.meta.url), { type: "module", name: "harness" });
  worker.onerror = onBroken;
  const lock = `harness tab ${crypto.randomUUID()}`;
  await new Promise<void>((resolve, reject) => {
    navigator.locks.request(lock, () => (resolve(), new Promise(() => undefined))).catch(reject);
  });
  worker.port.start();
  return (known = { port: worker.port, lock });
}

class SharedSocket implements Socket {
  readyState: number = CONNECTING;
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  onerror: Socket["onerror"] = null;
  #port: MessagePort | null = null;
  readonly #timer = setTimeout(() => this.#broken(), JOINED_WITHIN_MS);

  constructor(url: string, protocols: readonly string[]) {
    joined(() => this.#broken()).then(
      ({ port, lock }) => {
        if (this.readyState === CLOSED) return;
        this.#port = port;
        port.onmessage = ({ data }: MessageEvent<ToTab>) => this.#receive(data);
        this.#post({ kind: "open", url, protocols, lock });
      },
      () => this.#broken(),
    );
  }

  send(data: string): void {
    this.#post({ kind: "send", data });
  }

  close(): void {
    this.#post({ kind: "close" });
    this.#end();
  }

  #post(message: FromTab): void {
    this.#port?.postMessage(message);
  }

  #receive(message: ToTab): void {
    if (this.readyState === CLOSED) return;
    if (message.kind === "joined") clearTimeout(this.#timer);
    else if (message.kind === "message") {
      this.readyState = OPEN;
      this.onmessage?.({ data: message.data });
    } else {
      this.#end();
      this.onclose?.({ code: message.code, reason: message.reason });
    }
  }

  /** There is no such worker here: the next connection is one of this tab. */
  #broken(): void {
    if (this.readyState === CLOSED) return;
    canShare = false;
    this.#end();
    this.onclose?.({ code: LOST, reason: "" });
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.readyState = CLOSED;
  }
}
