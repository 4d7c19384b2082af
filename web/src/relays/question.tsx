import { useState, type FormEvent } from "react";
import type { HarnessRelay, JSONValue } from "../../client/src/index.js";
import { useConversation } from "../conversation/context.js";
import { Markdown } from "../text/markdown.js";
import { Revealed } from "../text/revealed.js";
import { revealed } from "../text/unseen.js";
import { allowsSeveral, choicesOf, payloadText, schemaFields, type Field } from "./payload.js";
import { useSent } from "./use_sent.js";

export function Question({ relay }: { relay: HarnessRelay }) {
  const { client } = useConversation();
  const [isSent, setSent] = useSent();
  const answer = (value: JSONValue) => {
    setSent(true);
    client.answer(relay.id, value);
  };
  const fields = schemaFields(relay.resumeSchema);
  const question = relay.question || payloadText(relay, "question") || `${relay.toolName || "The agent"} is waiting for an answer`;
  return (
    <div>
      <div className="ask-title">
        <Markdown text={question} />
      </div>
      {relay.kind === "tool" && !relay.question && <RawPayload payload={relay.payload} />}
      {fields ? (
        <FieldForm fields={fields} isSent={isSent} onAnswer={answer} />
      ) : (
        <ChoiceForm relay={relay} isSent={isSent} onAnswer={answer} />
      )}
    </div>
  );
}

function RawPayload({ payload }: { payload: JSONValue }) {
  if (payload === null) return null;
  return <pre className="arguments">
      <Revealed text={typeof payload === "string" ? payload : JSON.stringify(payload, null, 2)} />
    </pre>;
}

function ChoiceForm({ relay, isSent, onAnswer }: { relay: HarnessRelay; isSent: boolean; onAnswer: (value: JSONValue) => void }) {
  const choices = choicesOf(relay);
  const several = allowsSeveral(relay);
  const [picked, setPicked] = useState<readonly string[]>([]);
  const [text, setText] = useState("");
  const toggle = (label: string) =>
    setPicked(picked.includes(label) ? picked.filter((other) => other !== label) : several ? [...picked, label] : [label]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const own = text.trim();
    if (several) onAnswer([...picked, ...(own ? [own] : [])]);
    else onAnswer(own || picked[0] || "");
  };
  return (
    <form onSubmit={submit}>
      {choices.length > 0 && (
        <div className="choices" role={several ? "group" : "radiogroup"} aria-label="Answers">
          {choices.map(({ label, description }) => (
            <button
              key={label}
              type="button"
              role={several ? "checkbox" : "radio"}
              aria-checked={picked.includes(label)}
              className="choice"
              onClick={() => (several || text.trim() ? toggle(label) : onAnswer(label))}
              disabled={isSent}
            >
              <span>
                <Revealed text={label} />
              </span>
              {description && (
                <span className="faint">
                  <Revealed text={description} kind="speech" />
                </span>
              )}
            </button>
          ))}
        </div>
      )}
      <div className="ask-buttons">
        <input
          value={text}
          onChange={(event) => setText(event.target.value)}
          placeholder={choices.length ? "Or in your own words" : "Your answer"}
          aria-label="Your answer"
          autoFocus={!choices.length}
        />
        <button type="submit" className="button primary" disabled={isSent || !(text.trim() || picked.length)}>
          Answer
        </button>
      </div>
    </form>
  );
}

function FieldForm({ fields, isSent, onAnswer }: { fields: readonly Field[]; isSent: boolean; onAnswer: (value: JSONValue) => void }) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const values = fields.flatMap((field): [string, JSONValue][] => {
      const value = given.get(field.name);
      if (field.kind === "boolean") return [[field.name, value !== null]];
      if (typeof value !== "string" || (value === "" && !field.isRequired)) return [];
      return [[field.name, field.kind === "number" ? Number(value) : value]];
    });
    onAnswer(Object.fromEntries(values));
  };
  return (
    <form onSubmit={submit} className="fields">
      {fields.map((field) => (
        <label key={field.name}>
          <span>
            {revealed(field.name)} {field.description && <span className="faint">{revealed(field.description, "speech")}</span>}
          </span>
          <FieldInput field={field} />
        </label>
      ))}
      <div className="ask-buttons">
        <button type="submit" className="button primary" disabled={isSent}>
          Answer
        </button>
      </div>
    </form>
  );
}

function FieldInput({ field }: { field: Field }) {
  if (field.kind === "boolean") return <input type="checkbox" name={field.name} />;
  if (field.kind === "choice")
    return (
      <select name={field.name} required={field.isRequired}>
        {!field.isRequired && <option value="" />}
        {field.choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    );
  return <input type={field.kind} step="any" name={field.name} required={field.isRequired} />;
}
