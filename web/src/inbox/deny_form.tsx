import { useId, type KeyboardEvent } from "react";
import { useDraft } from "./drafts.js";

const REASONS = ["Not now", "Wrong folder", "Ask me first next time"] as const;

interface DenyFormProps {
  readonly draftKey: string;
  readonly isOff: boolean;
  readonly canStop: boolean;
  readonly label?: string;
  readonly onDeny: (reason: string, stops: boolean) => void;
  readonly onBack: () => void;
}

/** Why not, in words that the agent reads. */
export function DenyForm({ draftKey, isOff, canStop, label = "Deny", onDeny, onBack }: DenyFormProps) {
  const [reason, setReason] = useDraft(`deny ${draftKey}`, "");
  const id = useId();
  const deny = (stops: boolean) => !isOff && onDeny(reason.trim(), stops);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      onBack();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) {
      event.preventDefault();
      deny(false);
    }
  };
  return (
    <div className="deny" onKeyDown={onKeyDown}>
      <label className="label" htmlFor={id}>
        What should it do instead? <span className="faint">The agent reads this. May stay empty.</span>
      </label>
      <textarea id={id} className="field" rows={2} autoFocus value={reason} aria-label="Reason" onChange={(event) => setReason(event.target.value)} />
      <div className="filters">
        {REASONS.map((text) => (
          <button key={text} type="button" className="chip" onClick={() => setReason(text)}>
            {text}
          </button>
        ))}
      </div>
      <div className="ask-buttons">
        <button type="button" className="button stop" disabled={isOff} onClick={() => deny(false)}>
          {label} <kbd>Ctrl ↵</kbd>
        </button>
        {canStop && (
          <button type="button" className="button" disabled={isOff} onClick={() => deny(true)}>
            Deny and stop
          </button>
        )}
        <button type="button" className="button" onClick={onBack}>
          Back <kbd>Esc</kbd>
        </button>
      </div>
    </div>
  );
}
