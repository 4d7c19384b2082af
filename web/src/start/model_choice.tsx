import { useState } from "react";
import type { Model } from "../api.js";
import type { KnownModels } from "../sessions/choices.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";

const SHOWN_FIRST = 4;

interface ModelChoiceProps {
  readonly known: KnownModels;
  /** Empty: the usual one. */
  readonly model: string;
  /** What is taken when none is chosen; empty: the agent decides. */
  readonly usual: string;
  readonly onChange: (model: string) => void;
}

export function ModelChoice({ known, model, usual, onChange }: ModelChoiceProps) {
  const [isOther, setOther] = useState(false);
  const [areAllShown, setAllShown] = useState(false);
  const usable = known.models.filter((one) => one.usable && one.id !== usual);
  const first = known.models.find(({ id }) => id === usual);
  const shown = areAllShown ? usable : usable.slice(0, SHOWN_FIRST);
  return (
    <fieldset>
      <legend className="label">Model</legend>
      <div className="start-models">
        <Choice model={first} name={first?.name ?? usual} note="default" isChosen={!isOther && !model} onChoose={() => (setOther(false), onChange(""))} />
        {shown.map((one) => (
          <Choice key={one.id} model={one} name={one.name} note={one.name === one.id ? "" : one.id} isChosen={!isOther && model === one.id} onChoose={() => (setOther(false), onChange(one.id))} />
        ))}
        {usable.length > shown.length && (
          <button type="button" className="quiet start-more-models" onClick={() => setAllShown(true)}>
            {usable.length - shown.length} more…
          </button>
        )}
        <div className="start-model">
          {isOther ? (
            <input autoFocus aria-label="Model" value={model} placeholder="Name of a model" onChange={(event) => onChange(event.target.value)} spellCheck={false} className="fixed" />
          ) : (
            <button type="button" className="quiet" onClick={() => (setOther(true), onChange(""))}>
              <Icon name="search" /> Another model…
            </button>
          )}
          <span className="faint start-price">per million tokens</span>
        </div>
      </div>
    </fieldset>
  );
}

interface ChoiceProps {
  readonly model: Model | undefined;
  readonly name: string;
  readonly note: string;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
}

function Choice({ model, name, note, isChosen, onChoose }: ChoiceProps) {
  return (
    <label className="start-model" data-on={isChosen || undefined}>
      <input type="radio" name="model" checked={isChosen} onChange={onChoose} />
      <span className="clipped">{inOneLine(name || "The agent’s own choice", "code")}</span>
      <span className="faint small clipped">{inOneLine(note)}</span>
      <span className="faint start-price">{priceOf(model)}</span>
    </label>
  );
}

/** Unknown is not free. */
function priceOf(model: Model | undefined): string {
  if (!model || model.priceIn == null || model.priceOut == null) return model ? "–" : "";
  return model.priceIn === 0 && model.priceOut === 0 ? "free" : `$${model.priceIn} in · $${model.priceOut} out`;
}
