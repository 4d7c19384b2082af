/** A plan to read: its steps, notes on them, and then start, or ask for another one. */

import { lazy, Suspense, useState } from "react";
import type { JSONValue } from "../../client/src/index.js";
import { Icon } from "../shell/icon.js";
import { Revealed } from "../text/revealed.js";
import { inOneLine } from "../text/unseen.js";
import { useDraft } from "./drafts.js";
import { payloadText, stepsOf } from "./question.js";
import type { RowAsk } from "./row.js";

const Markdown = lazy(() => import("../text/markdown.js").then((module) => ({ default: module.Markdown })));

interface PlanProps {
  readonly ask: RowAsk;
  readonly draftKey: string;
  readonly isOff: boolean;
  readonly isAt: boolean;
  readonly onAnswer: (value: JSONValue, words: string) => void;
}

type Notes = { readonly [step: number]: string };

export function planText(ask: RowAsk): string {
  return payloadText(ask, "plan") || ask.subject || ask.question;
}

export function planTitle(ask: RowAsk): string {
  const title = payloadText(ask, "title");
  return title ? `Review the plan: ${inOneLine(title)}` : "Review the plan";
}

export function PlanForm({ ask, draftKey, isOff, isAt, onAnswer }: PlanProps) {
  const plan = planText(ask);
  const steps = stepsOf(plan);
  const [notes, setNotes] = useDraft<Notes>(`notes ${draftKey}`, {});
  const [words, setWords] = useDraft(`plan ${draftKey}`, "");
  const [isRefusing, setRefusing] = useState(false);
  const written = Object.entries(notes).filter(([, note]) => note.trim());
  const feedback = [...written.map(([step, note]) => `Step ${Number(step) + 1}: ${note.trim()}`), words.trim()].filter(Boolean).join("\n");
  const answer = (action: "approved" | "rejected") => onAnswer({ action, ...(feedback && { feedback }) }, action === "approved" ? "start" : "another plan");
  const count = written.length + (words.trim() ? 1 : 0);
  return (
    <div className="plan-form">
      {steps ? (
        <Steps steps={steps} notes={notes} onNote={(step, note) => setNotes({ ...notes, [step]: note })} />
      ) : (
        <div className="plan-text" tabIndex={0} role="group" aria-label="Plan">
          <Suspense fallback={<p className="as-typed">{plan}</p>}>
            <Markdown text={plan} />
          </Suspense>
        </div>
      )}
      {(isRefusing || !steps) && (
        <textarea
          className="field"
          rows={2}
          value={words}
          autoFocus={isRefusing}
          aria-label="What should be different?"
          placeholder="What should be different?"
          onChange={(event) => setWords(event.target.value)}
        />
      )}
      <div className="ask-buttons">
        <button type="button" className={isAt ? "button primary" : "button"} disabled={isOff} data-act="allow" onClick={() => answer("approved")}>
          {count ? `Start, with ${count} ${count === 1 ? "note" : "notes"}` : "Start"} {isAt && <kbd>y</kbd>}
        </button>
        {isRefusing ? (
          <button type="button" className="button" disabled={isOff} onClick={() => answer("rejected")}>
            Ask for another plan
          </button>
        ) : (
          <button type="button" className="button" disabled={isOff} data-act="deny" onClick={() => (steps ? setRefusing(true) : answer("rejected"))}>
            {steps ? "Ask for another plan…" : "Ask for another plan"} {isAt && <kbd>n</kbd>}
          </button>
        )}
      </div>
    </div>
  );
}

function Steps({ steps, notes, onNote }: { readonly steps: readonly string[]; readonly notes: Notes; readonly onNote: (step: number, note: string) => void }) {
  const [open, setOpen] = useState(-1);
  return (
    <ol className="steps">
      {steps.map((step, index) => (
        <li key={index}>
          <span className="row">
            <span className="faint num step-number">{index + 1}</span>
            <span className="grow">
              <Revealed text={step} kind="speech" />
            </span>
            <button
              type="button"
              className="square small"
              aria-label={`Note on step ${index + 1}`}
              aria-expanded={open === index}
              onClick={() => setOpen(open === index ? -1 : index)}
            >
              <Icon name="note" isSmall />
            </button>
          </span>
          {open === index && (
            <input
              className="field"
              autoFocus
              aria-label={`Note on step ${index + 1}`}
              value={notes[index] ?? ""}
              onChange={(event) => onNote(index, event.target.value)}
            />
          )}
          {open !== index && notes[index]?.trim() && (
            <p className="steered">
              <Icon name="note" isSmall /> {notes[index]}
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}
