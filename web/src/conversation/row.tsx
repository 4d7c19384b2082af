/** One item of the conversation, with its time and a way to copy it. */

import { memo } from "react";
import type { HarnessMessage } from "../../client/src/index.js";
import { shortTime } from "../amounts.js";
import { countOf, Delta } from "../changes/amounts.js";
import { continuingAddress, go, reviewAddress } from "../route.js";
import { CopyButton } from "../shell/copy_button.js";
import { Icon } from "../shell/icon.js";
import { Revealed } from "../text/revealed.js";
import { LooksCard } from "../tools/looks_card.js";
import { useConversation } from "./context.js";
import { textOf } from "./item_text.js";
import type { Item } from "./items.js";
import { MessagePart, UserParts } from "./message.js";
import { RunFacts } from "./run_facts.js";

export const Row = memo(function Row({ item }: { item: Item }) {
  switch (item.kind) {
    case "turn":
      return <TurnLine number={item.number} message={item.message} />;
    case "user":
      return <UserMessage item={item} />;
    case "steered":
      return <Steered message={item.message} takenMs={item.takenMs} />;
    case "working":
      return <Working text="Working…" />;
    case "end":
      return <RunFacts message={item.message} />;
    default:
      return (
        <div className="message assistant" data-status={item.message.status}>
          {item.kind === "looks" ? <LooksCard id={item.key} calls={item.calls} /> : <MessagePart part={item.part} call={item.call} isGrowing={item.isGrowing} id={item.key} />}
          <Tools item={item} />
        </div>
      );
  }
});

/** On hover and focus: the time, and a button that copies the text. */
function Tools({ item }: { item: Item }) {
  const { createdMs } = item.message;
  return (
    <div className="block-tools">
      {createdMs ? <time dateTime={new Date(createdMs).toISOString()}>{shortTime(createdMs)}</time> : null}
      <CopyButton text={() => textOf(item)} />
    </div>
  );
}

function TurnLine({ number, message }: { number: number; message: HarnessMessage }) {
  const { sessionId, changedTurns } = useConversation();
  const changed = message.runId ? changedTurns.get(message.runId) : undefined;
  return (
    <h2 className="turn" data-turn={number}>
      <span>
        Turn {number}
        {message.createdMs ? <> · {shortTime(message.createdMs)}</> : null}
        {changed && (
          <>
            {" · "}
            <a href={reviewAddress(sessionId, { scope: `turn:${changed.id}` })} title="Show what this turn changed">
              {countOf(changed.files, "file")}
            </a>{" "}
            <Delta added={changed.added} removed={changed.removed} />
          </>
        )}
      </span>
    </h2>
  );
}

function UserMessage({ item }: { item: Extract<Item, { kind: "user" }> }) {
  const { sessionId, canGoBack } = useConversation();
  const { message } = item;
  return (
    <article className="message user" data-status={message.status} aria-label="You">
      <div className="bubble">
        <UserParts message={message} />
      </div>
      <div className="when">
        <span className="block-tools">
          {canGoBack && (
            <button type="button" className="quiet small go-back" onClick={() => go(continuingAddress(sessionId, message.id))} aria-label="Rephrase" title="Rephrase, in a new conversation">
              <Icon name="write" />
            </button>
          )}
          <CopyButton text={() => textOf(item)} />
        </span>
        {message.createdMs ? `${shortTime(message.createdMs)} · you` : "you"}
      </div>
    </article>
  );
}

function Steered({ message, takenMs }: { message: HarnessMessage; takenMs: number | null }) {
  return (
    <article className="message user steered" data-status={message.status} aria-label="You steered">
      <Icon name="steer" />
      <p className="as-typed">
        <Revealed text={message.content} kind="speech" />
      </p>
      <span className="steered-when">{takenMs === null ? "sent, not yet taken" : `you steered · taken ${shortTime(takenMs)}`}</span>
    </article>
  );
}

export function Working({ text }: { text: string }) {
  return (
    <p className="faint thinking" role="status">
      <span className="spinner" aria-hidden="true" /> {text}
    </p>
  );
}
