/** The answers to a question: one of a few, several, in own words, or a form with fields. */

import { useId, type FormEvent, type KeyboardEvent } from "react";
import type { JSONValue } from "../../client/src/index.js";
import { inOneLine } from "../text/unseen.js";
import { useDraft } from "./drafts.js";
import { allowsSeveral, choicesOf, fieldsOf, type AnswerChoice, type AnswerField } from "./question.js";
import type { RowAsk } from "./row.js";

export interface QuestionProps {
  readonly ask: RowAsk;
  readonly draftKey: string;
  readonly isOff: boolean;
  /** The whole screen is for it. */
  readonly isLarge?: boolean;
  readonly onAnswer: (value: JSONValue, words: string) => void;
}

export function QuestionForm(props: QuestionProps) {
  const fields = fieldsOf(props.ask.resumeSchema);
  return fields ? <FieldForm {...props} fields={fields} /> : <ChoiceForm {...props} />;
}

/** Whether it can be answered with one button. */
export function isSimple(ask: RowAsk): boolean {
  return !fieldsOf(ask.resumeSchema) && choicesOf(ask).length > 0 && !allowsSeveral(ask) && choicesOf(ask).every(({ description }) => description.length < 60);
}

function onSendKey(event: KeyboardEvent<HTMLElement>): void {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.repeat) return;
  event.preventDefault();
  (event.currentTarget as HTMLFormElement).requestSubmit();
}

function ChoiceForm({ ask, draftKey, isOff, isLarge = false, onAnswer }: QuestionProps) {
  const choices = choicesOf(ask);
  const isSeveral = allowsSeveral(ask);
  const [picked, setPicked] = useDraft<readonly string[]>(`picked ${draftKey}`, []);
  const [text, setText] = useDraft(`words ${draftKey}`, "");
  const [isElse, setElse] = useDraft(`else ${draftKey}`, !choices.length);
  if (!isSeveral && !isLarge && choices.length > 0 && !isElse)
    return (
      <div className="choices">
        {choices.map(({ label, description }, index) => (
          <button key={label} type="button" className="choice" disabled={isOff} onClick={() => onAnswer(label, label)} title={description || undefined}>
            {index < 9 && <kbd>{index + 1}</kbd>} {inOneLine(label)}
            {description && <span className="faint small clip"> · {inOneLine(description)}</span>}
          </button>
        ))}
        <button type="button" className="choice" disabled={isOff} onClick={() => setElse(true)}>
          {choices.length < 9 && <kbd>{choices.length + 1}</kbd>} Something else…
        </button>
      </div>
    );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const own = text.trim();
    const all = [...picked, ...(own ? [own] : [])];
    if (isOff || !all.length) return;
    if (isSeveral) onAnswer(all, all.join(", "));
    else onAnswer(own || all[0]!, own || all[0]!);
  };
  const pick = (label: string) => {
    if (!isSeveral) setPicked([label]);
    else setPicked(picked.includes(label) ? picked.filter((one) => one !== label) : [...picked, label]);
  };
  return (
    <form className="question" onSubmit={submit} onKeyDown={onSendKey}>
      {choices.length > 0 && <Options choices={choices} isSeveral={isSeveral} picked={picked} isOff={isOff} name={draftKey} onPick={pick} />}
      <OwnWords text={text} isAlone={!choices.length} onText={setText} autoFocus={isElse && choices.length > 0 && !isLarge} />
      <div className="ask-buttons">
        <button type="submit" className="button primary" disabled={isOff || (!picked.length && !text.trim())}>
          Send answer <kbd>Ctrl ↵</kbd>
        </button>
        <button type="button" className="button" disabled={isOff} onClick={() => onAnswer("You decide.", "you decide")}>
          You decide
        </button>
        {!isSeveral && !isLarge && choices.length > 0 && (
          <button type="button" className="button" onClick={() => setElse(false)}>
            Back
          </button>
        )}
      </div>
    </form>
  );
}

interface OptionsProps {
  readonly choices: readonly AnswerChoice[];
  readonly isSeveral: boolean;
  readonly picked: readonly string[];
  readonly isOff: boolean;
  readonly name: string;
  readonly onPick: (label: string) => void;
}

const INLINE_LETTERS = 60;

function Options({ choices, isSeveral, picked, isOff, name, onPick }: OptionsProps) {
  const isInline = isSeveral && choices.reduce((sum, { label, description }) => sum + label.length + description.length, 0) < INLINE_LETTERS;
  return (
    <fieldset className={isInline ? "options inline" : "options"}>
      <legend className="unseen">Answers</legend>
      {choices.map(({ label, description }) => (
        <label key={label} className="option" data-on={picked.includes(label) || undefined}>
          <input type={isSeveral ? "checkbox" : "radio"} name={name} checked={picked.includes(label)} disabled={isOff} onChange={() => onPick(label)} />
          <span className="grow">
            {inOneLine(label)} {description && <span className="faint small option-note">{inOneLine(description)}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

function OwnWords({
  text,
  isAlone,
  autoFocus,
  onText,
}: {
  readonly text: string;
  readonly isAlone: boolean;
  readonly autoFocus: boolean;
  readonly onText: (text: string) => void;
}) {
  const id = useId();
  return (
    <>
      <label className="label" htmlFor={id}>
        {isAlone ? "Your answer" : "Or in your own words"}
      </label>
      <textarea
        id={id}
        className="field"
        rows={2}
        placeholder="The agent reads this"
        value={text}
        autoFocus={autoFocus}
        onChange={(event) => onText(event.target.value)}
      />
    </>
  );
}

type Values = { readonly [name: string]: JSONValue };

function FieldForm({ ask, draftKey, isOff, fields, onAnswer }: QuestionProps & { readonly fields: readonly AnswerField[] }) {
  const [values, setValues] = useDraft<Values>(`fields ${draftKey}`, {});
  const isComplete = fields.every(({ name, isRequired }) => !isRequired || hasValue(values[name]));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isOff || !isComplete) return;
    onAnswer(values, Object.values(values).map(String).join(", "));
  };
  return (
    <form className="question" onSubmit={submit} onKeyDown={onSendKey}>
      {ask.question && fields.length > 1 && <p className="soft small">The agent waits for all of them.</p>}
      {fields.map((field, index) => (
        <Field
          key={field.name}
          field={field}
          number={fields.length > 1 ? index + 1 : 0}
          value={values[field.name] ?? null}
          isOff={isOff}
          name={`${draftKey} ${field.name}`}
          onValue={(value) => setValues({ ...values, [field.name]: value })}
        />
      ))}
      <div className="ask-buttons">
        <button type="submit" className="button primary" disabled={isOff || !isComplete}>
          {fields.length > 1 ? "Send answers" : "Send answer"} <kbd>Ctrl ↵</kbd>
        </button>
      </div>
    </form>
  );
}

function hasValue(value: JSONValue | undefined): boolean {
  return value !== undefined && value !== null && value !== "" && !(Array.isArray(value) && !value.length);
}

interface FieldProps {
  readonly field: AnswerField;
  readonly number: number;
  readonly value: JSONValue;
  readonly isOff: boolean;
  readonly name: string;
  readonly onValue: (value: JSONValue) => void;
}

function Field({ field, number, value, isOff, name, onValue }: FieldProps) {
  const id = useId();
  const title = `${number ? `${number} · ` : ""}${inOneLine(field.title)}`;
  if (field.kind === "choice" || field.kind === "choices") {
    const picked = Array.isArray(value) ? (value as readonly string[]) : typeof value === "string" ? [value] : [];
    const pick = (label: string) => {
      if (field.kind === "choice") onValue(label);
      else onValue(picked.includes(label) ? picked.filter((one) => one !== label) : [...picked, label]);
    };
    return (
      <fieldset>
        <legend className="label">
          {title} {field.kind === "choices" && <span className="faint">several</span>}
        </legend>
        <Options
          choices={field.choices.map((label) => ({ label, description: "" }))}
          isSeveral={field.kind === "choices"}
          picked={picked}
          isOff={isOff}
          name={name}
          onPick={pick}
        />
      </fieldset>
    );
  }
  if (field.kind === "boolean")
    return (
      <label className="option" data-on={value === true || undefined}>
        <input type="checkbox" checked={value === true} disabled={isOff} onChange={(event) => onValue(event.target.checked)} />
        <span>{title}</span>
      </label>
    );
  const isNumber = field.kind === "number";
  return (
    <div>
      <label className="label" htmlFor={id}>
        {title}
      </label>
      <input
        id={id}
        className="field"
        type={isNumber ? "number" : "text"}
        step="any"
        value={value === null ? "" : String(value)}
        required={field.isRequired}
        onChange={({ target }) => onValue(isNumber && target.value !== "" ? target.valueAsNumber : target.value)}
      />
    </div>
  );
}
