import { useEffect, useRef, useState } from "react";
import type { HarnessMessage } from "../../client/src/index.js";
import { inOneLine } from "../text/unseen.js";

const SAID_MAX = 2_000;

/** Announced by a screen reader when an answer is complete: text that grows would be announced again and again. */
export function FinishedAnswer({ messages }: { messages: readonly HarnessMessage[] }) {
  const last = messages.findLast(({ role }) => role === "assistant");
  const isDone = !!last && (last.status === "complete" || last.status === "error");
  const announced = useRef(isDone ? last.id : ""); // what was there already is not announced
  const [text, setText] = useState("");
  useEffect(() => {
    if (!isDone || announced.current === last.id) return;
    announced.current = last.id;
    setText(announcement(last));
  }, [last, isDone]);
  return (
    <p className="unseen" role="status" aria-live="polite" data-finished>
      {text}
    </p>
  );
}

function announcement({ content, status }: HarnessMessage): string {
  const text = inOneLine(content.replace(/[`*#]/g, "").trim());
  const shortened = text.length > SAID_MAX ? `${text.slice(0, SAID_MAX)} …` : text;
  return `${status === "error" ? "The agent failed" : "The agent answered"}${shortened ? `: ${shortened}` : "."}`;
}
