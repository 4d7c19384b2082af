/** Similar questions, answered together after the list of them was shown. */

import { useId, useRef, useState, useEffect, type KeyboardEvent } from "react";
import { Icon } from "../shell/icon.js";
import { isWriting } from "../shell/keys.js";
import { Revealed } from "../text/revealed.js";
import { inOneLine } from "../text/unseen.js";
import { AgentBadge } from "./agent_badge.js";
import { sharedAnswers } from "./answers.js";
import { DenyForm } from "./deny_form.js";
import { titleOf } from "./facts.js";
import { useSteady } from "./guard.js";
import { AskSubject, MoreArguments } from "./ask_subject.js";
import { ReadingContext, useReading } from "./reading.js";
import type { AskOption, RowAsk } from "./row.js";
import type { OpenAsk } from "./sections.js";

const isPath = ({ title, subject }: RowAsk): boolean => title.endsWith(subject);

/** The rule that all of them have in common, as the server prints it. */
function ruleOf({ ask }: OpenAsk): string {
  const options: readonly (string | AskOption)[] = ask.options ?? [];
  const always = options.filter((option): option is AskOption => typeof option === "object" && option?.kind === "allow-always").at(-1);
  return (always?.label ?? ask.title).replace(/^Always allow /, "");
}

export function AlikeBar({ asks, isOff, onOpen }: { readonly asks: readonly OpenAsk[]; readonly isOff: boolean; readonly onOpen: () => void }) {
  const { row } = asks[0]!;
  return (
    <div className="batch">
      <Icon name="command" />
      <span className="clip">
        {asks.length} ask the same:{" "}
        <code>
          <Revealed text={ruleOf(asks[0]!)} />
        </code>{" "}
        in {inOneLine(row.project.name) || "the same folder"}
      </span>
      <button type="button" className="button small push" disabled={isOff} onClick={onOpen}>
        {asks.length === 2 ? "Answer both…" : `Answer ${asks.length} similar…`} <kbd>Y</kbd>
      </button>
    </div>
  );
}

export function AlikeCard({ asks, isOff, onBack }: { readonly asks: readonly OpenAsk[]; readonly isOff: boolean; readonly onBack: () => void }) {
  const id = useId();
  const card = useRef<HTMLElement>(null);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [isDenying, setDenying] = useState(false);
  const reading = useReading();
  const isSteady = useSteady(asks.map(({ key }) => key).join("\n"));
  useEffect(() => card.current?.focus(), []);
  const chosen = asks.filter(({ key }) => !left.has(key));
  const toggle = (key: string) => {
    const next = new Set(left);
    if (!next.delete(key)) next.add(key);
    setLeft(next);
  };
  const answer = (action: "approve" | "deny", reason = "") => {
    if (isOff || !chosen.length || !isSteady() || (action === "approve" && !reading.isRead)) return;
    void sharedAnswers().answerMany(chosen, action, reason);
    onBack();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
    if (event.key === "Escape") onBack();
    else if (event.key === "y" && !event.repeat) answer("approve");
    else if (event.key === "n" && !event.repeat) setDenying(true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const all = chosen.length;
  return (
    <article ref={card} className="ask at alike" aria-labelledby={id} tabIndex={-1} onKeyDown={onKeyDown}>
      <div className="ask-head">
        <span className="state ask" role="img" aria-label="Needs you" />
        <h3 className="ask-title" id={id}>
          Answer {asks.length} similar questions?
        </h3>
        <span className="ask-facts">
          <span>{inOneLine(asks[0]!.row.project.name)}</span>
        </span>
      </div>
      <div className="ask-body">
        <p className="ask-what">Same operation, same rule, same project. Each is answered for itself; one that changed meanwhile is left out.</p>
        <ReadingContext value={reading.note}>
        <ul className="alike-list">
          {asks.map(({ key, row, ask }) => (
            <li key={key}>
              <label className="row">
                <input type="checkbox" checked={!left.has(key)} onChange={() => toggle(key)} />
                <AgentBadge agentName={row.agentName} title={row.agent} />
                <span className="clip alike-title">{titleOf(row)}</span>
                {isPath(ask) && (
                  <code className="clip push">
                    <Revealed text={inOneLine(ask.subject, "code")} />
                  </code>
                )}
              </label>
              <AskSubject ask={ask} isWhole cwd={row.cwd} />
              {ask.more.length > 0 && <MoreArguments more={ask.more} />}
            </li>
          ))}
        </ul>
        </ReadingContext>
        {isDenying ? (
          <DenyForm
            draftKey={asks[0]!.ask.alike}
            isOff={isOff || !all}
            canStop={false}
            label={`Deny these ${all}`}
            onDeny={(reason) => answer("deny", reason)}
            onBack={() => setDenying(false)}
          />
        ) : (
          <div className="ask-buttons">
            <button type="button" className="button primary" disabled={isOff || !all || !reading.isRead} onClick={() => answer("approve")}>
              Allow these {all} once <kbd>y</kbd>
            </button>
            <button type="button" className="button" disabled={isOff || !all} onClick={() => setDenying(true)}>
              Deny all {all}… <kbd>n</kbd>
            </button>
            <button type="button" className="button" onClick={onBack}>
              Back <kbd>Esc</kbd>
            </button>
          </div>
        )}
      </div>
    </article>
  );
}
