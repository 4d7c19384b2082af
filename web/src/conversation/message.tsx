/** The parts of a message: the same for the conversation itself and for sub-agents inside it. */

import { memo } from "react";
import { partsOf, type HarnessMessage, type HarnessPart, type HarnessToolCall } from "../../client/src/index.js";
import { Icon } from "../shell/icon.js";
import { Markdown } from "../text/markdown.js";
import { Revealed } from "../text/revealed.js";
import { inOneLine } from "../text/unseen.js";
import { ToolCard } from "../tools/tool_card.js";
import { FilePart } from "./file_part.js";
import { Folded } from "./folded.js";

interface PartProps {
  readonly part: HarnessPart;
  readonly call: HarnessToolCall | undefined;
  readonly isGrowing: boolean;
  /** Identifies it among all that can be opened. */
  readonly id: string;
}

export const MessagePart = memo(function MessagePart({ part, call, isGrowing, id }: PartProps) {
  switch (part.type) {
    case "text":
      return <Markdown text={part.text} isGrowing={isGrowing} />;
    case "reasoning":
      return <Folded id={id} label={isGrowing ? "Thinking" : "Thought"} text={part.text} isGrowing={isGrowing} />;
    case "tool":
      return call ? <ToolCard call={call} /> : null;
    case "file":
      return <FilePart file={part} />;
    case "notice":
      return <Notice notice={part} id={id} />;
    default:
      return null; // made by a newer server
  }
});

/** Notices of level info are folded. Warnings and errors are not. */
function Notice({ notice, id }: { notice: Extract<HarnessPart, { type: "notice" }>; id: string }) {
  const { level, code, text } = notice;
  if (level === "info") return <Folded id={id} label={inOneLine(code) || "Note"} text={text.trim()} />;
  return (
    <p className="notice" data-level={level} role={level === "error" ? "alert" : undefined}>
      <Icon name="warning" />
      <span>
        <Revealed text={text.trim()} kind="speech" />
      </span>
    </p>
  );
}

export function UserParts({ message }: { message: HarnessMessage }) {
  return partsOf(message).map((part, index) =>
    part.type === "text" ? (
      <p key={index} className="as-typed">
        <Revealed text={part.text} kind="speech" />
      </p>
    ) : (
      <MessagePart key={index} part={part} call={undefined} isGrowing={false} id={`${message.id} ${index}`} />
    ),
  );
}
