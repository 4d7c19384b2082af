/** A question in one line: one of many, or one that is over. */

import { useId, useLayoutEffect, useRef, useState } from "react";
import { roughly } from "../amounts.js";
import { sessionAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { AgentBadge } from "./agent_badge.js";
import { sharedAnswers, type Outcome } from "./answers.js";
import { questionOf, type AskCardProps } from "./ask_card.js";
import { titleOf, useNow } from "./facts.js";
import { stepsOf } from "./question.js";
import { planText } from "./plan_form.js";
import { isMarked, type RowAsk } from "./row.js";
import { StateSign } from "./row_state.js";

interface AskLineProps extends Pick<AskCardProps, "one" | "isOnline" | "isSteady" | "outcome" | "tabIndex"> {
  /** To answer it in full. */
  readonly onOpen: () => void;
}

export function AskLine({ one, isOnline, isSteady, outcome, tabIndex, onOpen }: AskLineProps) {
  const { row, ask } = one;
  const id = useId();
  const now = useNow(1_000);
  const [isPressed, setPressed] = useState(false);
  const isOff = !isOnline || !row.can.answer || outcome?.kind === "sending" || isPressed;
  const subjectPlace = useRef<HTMLElement>(null);
  const [isClipped, setClipped] = useState(true);
  useLayoutEffect(() => {
    const place = subjectPlace.current!;
    const look = () => setClipped(place.scrollWidth > place.clientWidth);
    const observer = new ResizeObserver(look);
    observer.observe(place);
    look();
    return () => observer.disconnect();
  }, [ask]);
  const isQuick = ask.kind === "permission" && !isClipped && !isMarked(ask) && !ask.preview?.length && !ask.more.length && !ask.further.length && !ask.isCut;
  const allow = () => {
    if (isOff || !isSteady()) return;
    setPressed(true);
    sharedAnswers().answer(one, { kind: "approve", option: null });
  };
  const { verb, subject } = wordsOf(ask);
  return (
    <article className="ask thin" aria-labelledby={id} data-key={one.key} data-stop={one.key} tabIndex={tabIndex}>
      <div className="ask-head">
        <StateSign state={row.state} />
        <AgentBadge agentName={row.agentName} title={row.agent} />
        <h3 className="ask-title clip" id={id}>
          <a href={sessionAddress(row.id)} tabIndex={-1}>
            {titleOf(row)}
          </a>
        </h3>
        <span className="small soft ask-verb">{verb}</span>
        <code ref={subjectPlace} className="clip grow">
          {subject}
        </code>
        <span className="wait num small">{roughly(now - (ask.askedMs || row.stateSinceMs))}</span>
        <span className="ask-buttons">
          {isQuick ? (
            <>
              <button type="button" className="button small" disabled={isOff} onClick={allow}>
                Allow once
              </button>
              <button type="button" className="button small" disabled={isOff} onClick={onOpen}>
                Deny…
              </button>
            </>
          ) : (
            <button type="button" className="button small" onClick={onOpen}>
              {ask.preview?.length ? "Show diff" : ask.kind === "plan" ? "Review plan" : "Answer…"}
            </button>
          )}
        </span>
      </div>
    </article>
  );
}

/** “runs `pnpm test`”, “overwrites `app/rates.py`”, “plan of 4 steps”. */
function wordsOf(ask: RowAsk): { readonly verb: string; readonly subject: string } {
  if (ask.kind === "plan") {
    const count = stepsOf(planText(ask))?.length;
    return { verb: count ? `plan of ${count} steps` : "a plan", subject: "" };
  }
  if (ask.kind !== "permission") return { verb: "asks", subject: inOneLine(questionOf(ask)) };
  if (ask.title === "run a command") return { verb: "runs", subject: inOneLine(ask.subject, "code") };
  const isPath = ask.subject && ask.title.endsWith(ask.subject);
  const [first = "", ...rest] = (isPath ? ask.title.slice(0, -ask.subject.length).trim() : ask.title).split(" ");
  const verb = [/(?:ch|sh|s|x)$/.test(first) ? `${first}es` : `${first}s`, ...rest].join(" ");
  const counts = ask.preview?.[0] ? ` +${ask.preview[0].added} −${ask.preview[0].removed}` : "";
  return { verb: inOneLine(verb), subject: inOneLine(ask.subject, "code") + counts };
}

/** What became of it, for a moment in the same place. */
export function OutcomeLine({ outcome, tabIndex }: { readonly outcome: Outcome; readonly tabIndex?: number }) {
  const { row, key, kind, text } = outcome;
  const id = useId();
  return (
    <article className="ask over" aria-labelledby={id} data-key={key} data-stop={key} tabIndex={tabIndex}>
      <div className="ask-head">
        <span className={kind === "withdrawn" ? "state sign faint" : "state sign good"} role="img" aria-label={kind === "withdrawn" ? "Ended" : "Done"}>
          <Icon name={kind === "withdrawn" ? "stop" : "check"} isSmall={kind === "withdrawn"} />
        </span>
        <AgentBadge agentName={row.agentName} title={row.agent} />
        <h3 className="ask-title clip" id={id}>
          {inOneLine(text, "code")}
        </h3>
        <span className="ask-facts">
          <span className="clip">{titleOf(row)}</span>
          {kind === "withdrawn" && (
            <button type="button" className="quiet" onClick={() => sharedAnswers().dismiss(key)}>
              Dismiss
            </button>
          )}
        </span>
      </div>
    </article>
  );
}
