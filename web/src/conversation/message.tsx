/** A message: what was said and done, in order. The same for the conversation itself and for sub-agents inside it. */

import { memo, useMemo, useState } from "react";
import { partsOf, type HarnessMessage, type HarnessPart, type HarnessToolCall } from "../../client/src/index.js";
import { Icon } from "../shell/icon.js";
import { keepPlace } from "../shell/keep_place.js";
import { Markdown } from "../text/markdown.js";
import { Revealed } from "../text/revealed.js";
import { inOneLine } from "../text/unseen.js";
import { ToolCard } from "../tools/tool_card.js";
import { continuingAddress, go } from "../route.js";
import { useConversation } from "./context.js";
import { FilePart } from "./file_part.js";
import { Folded } from "./folded.js";
import { RunFacts } from "./run_facts.js";

/** A long run has thousands of parts; those above are shown when asked for. */
const SHOWN_FIRST = 150;

export const MessageBody = memo(function MessageBody({ message }: { message: HarnessMessage }) {
  const [shownMax, setShownMax] = useState(SHOWN_FIRST);
  const calls = useMemo(() => new Map((message.toolCalls ?? []).map((call) => [call.id, call])), [message.toolCalls]);
  const parts = partsOf(message);
  const from = Math.max(0, parts.length - shownMax);
  const isGoingOn = message.status === "pending" || message.status === "streaming";
  return (
    <>
      {from > 0 && (
        <button type="button" className="quiet earlier" onClick={(event) => keepPlace(event.currentTarget, () => setShownMax(shownMax * 4))}>
          Show {Math.min(from, shownMax * 3)} earlier steps of {from}
        </button>
      )}
      {parts.slice(from).map((part, offset) => (
        <Part
          key={from + offset}
          part={part}
          call={part.type === "tool" ? calls.get(part.callId) : undefined}
          isGrowing={isGoingOn && from + offset === parts.length - 1}
        />
      ))}
      {isGoingOn && !parts.length && message.role === "assistant" && (
        <p className="faint thinking" role="status">
          <span className="spinner" aria-hidden="true" /> Working…
        </p>
      )}
    </>
  );
});

const Part = memo(function Part({
  part,
  call,
  isGrowing,
}: {
  part: HarnessPart;
  call: HarnessToolCall | undefined;
  isGrowing: boolean;
}) {
  switch (part.type) {
    case "text":
      return part.text.trim() ? <Markdown text={part.text} isGrowing={isGrowing} /> : null;
    case "reasoning":
      return part.text.trim() ? <Folded label={isGrowing ? "Thinking" : "Thought"} text={part.text} isGrowing={isGrowing} /> : null;
    case "tool":
      return call ? <ToolCard call={call} /> : null;
    case "file":
      return <FilePart file={part} />;
    case "notice":
      return <Notice notice={part} />;
    default:
      return null; // made by a newer server
  }
});

/** Remarks are folded: most are what the model was told by the way. Warnings and errors are not. */
function Notice({ notice }: { notice: Extract<HarnessPart, { type: "notice" }> }) {
  const { level, code, text } = notice;
  if (level === "info") return text.trim() ? <Folded label={inOneLine(code) || "Note"} text={text.trim()} /> : null;
  return (
    <p className="notice" data-level={level} role={level === "error" ? "alert" : undefined}>
      <Icon name="warning" />
      <span>
        <Revealed text={text.trim()} kind="speech" />
      </span>
    </p>
  );
}

export const UserMessage = memo(function UserMessage({ message }: { message: HarnessMessage }) {
  const { sessionId, canGoBack } = useConversation();
  return (
    <article className="message user" data-status={message.status} aria-label="You">
      {canGoBack && (
        <button
          type="button"
          className="quiet round go-back"
          onClick={() => go(continuingAddress(sessionId, message.id))}
          aria-label="Rephrase"
          title="Rephrase, in a new conversation"
        >
          <Icon name="write" />
        </button>
      )}
      <div className="bubble">
        {partsOf(message).map((part, index) =>
          part.type === "text" ? (
            <p key={index} className="as-typed">
              <Revealed text={part.text} kind="speech" />
            </p>
          ) : (
            <Part key={index} part={part} call={undefined} isGrowing={false} />
          ),
        )}
        {message.status === "pending" && <p className="pending faint">Sent. The agent will read it at its next step.</p>}
      </div>
    </article>
  );
});

export const AssistantMessage = memo(function AssistantMessage({ message }: { message: HarnessMessage }) {
  return (
    <article className="message assistant" data-status={message.status} aria-label="Agent">
      <MessageBody message={message} />
      <RunFacts message={message} />
    </article>
  );
});

export function NestedMessages({ messages }: { messages: readonly HarnessMessage[] }) {
  return (
    <div className="nested">
      {messages.map((message) =>
        message.role === "user" ? (
          <p key={message.id} className="nested-prompt as-typed">
            <Revealed text={message.content} kind="speech" />
          </p>
        ) : (
          <MessageBody key={message.id} message={message} />
        ),
      )}
    </div>
  );
}
