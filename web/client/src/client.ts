/** A conversation as a program sees it: its state, and a method for everything that can be asked. */

import type { Attachment, HarnessCommand, RunConfig } from "./commands.js";
import type { JSONValue } from "./object_stream.js";
import type { HarnessState } from "./state.js";
import { ThreadMessageConverter, type ThreadMessage } from "./thread_messages.js";
import type { HarnessTransport } from "./transport.js";

export class HarnessClient {
  readonly #transport: HarnessTransport;
  readonly #converter = new ThreadMessageConverter();

  constructor({ transport }: { readonly transport: HarnessTransport }) {
    this.#transport = transport;
  }

  get state(): HarnessState {
    return this.#transport.state;
  }

  /** The messages as assistant-ui wants them. */
  get threadMessages(): readonly ThreadMessage[] {
    return this.#converter.convert(this.state);
  }

  send(command: HarnessCommand): void {
    this.#transport.send(command);
  }

  submit(prompt: string, attachments: readonly Attachment[] = []): void {
    this.send({ type: "submit", prompt, ...(attachments.length && { attachments }) });
  }

  /** What is queued stays, or is given up too. */
  cancel(queue: "keep" | "clear" = "keep"): void {
    this.send({ type: "cancel", ...(queue === "clear" && { queue }) });
  }

  /** Send what is queued. */
  continueQueue(): void {
    this.send({ type: "continue" });
  }

  steer(message: string): void {
    this.send({ type: "steer", message });
  }

  /** `optionId`: by this option of the relay; it grants what is on its label. */
  approve(relayId: string, { always = false, optionId = "" } = {}): void {
    this.send({ type: "approve", relayId, ...(always && { always }), ...(optionId && { optionId }) });
  }

  deny(relayId: string, reason = ""): void {
    this.send({ type: "deny", relayId, ...(reason && { reason }) });
  }

  answer(relayId: string, answer: JSONValue): void {
    this.send({ type: "answer", relayId, answer });
  }

  /** Ask again about what was always allowed: about one of `state.grants`, or about all of them. */
  revoke(grantId = ""): void {
    this.send({ type: "revoke", ...(grantId && { grantId }) });
  }

  resume(prompt: string, sessionId: string): void {
    this.send({ type: "resume", prompt, sessionId });
  }

  configure(config: RunConfig): void {
    this.send({ type: "configure", config });
  }

  withdraw(followUpId: string): void {
    this.send({ type: "withdraw", followUpId });
  }

  rename(title: string): void {
    this.send({ type: "rename", title });
  }
}
