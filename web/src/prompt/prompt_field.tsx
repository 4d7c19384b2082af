/** Where a prompt is written: it grows with its text, and completes files after `@` and commands after `/`. */

import { useEffect, useId, useRef, useState, type KeyboardEvent, type Ref } from "react";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { completed, tokenAt, type Token } from "./completion.js";
import { useSuggestions, type Suggestion, type SuggestionSource } from "./suggestions.js";

interface PromptFieldProps {
  readonly value: string;
  readonly onChange: (text: string) => void;
  /** For keys that the list of suggestions does not take. */
  readonly onKeyDown: (event: KeyboardEvent<HTMLTextAreaElement>) => void;
  readonly source: SuggestionSource;
  readonly label: string;
  readonly placeholder: string;
  readonly className: string;
  readonly rowsMin?: number;
  readonly rowsMax?: number;
  readonly isFocused?: boolean;
  readonly field?: Ref<HTMLTextAreaElement>;
}

export function PromptField({ value, onChange, onKeyDown, source, label, placeholder, className, rowsMin = 1, rowsMax = 12, isFocused = false, field }: PromptFieldProps) {
  const own = useRef<HTMLTextAreaElement | null>(null);
  const listId = useId();
  const [token, setToken] = useState<Token | null>(null);
  const [at, setAt] = useState(0);
  const suggestions = useSuggestions(token, source);
  const isOpen = token !== null && suggestions.length > 0;
  const chosen = Math.min(at, suggestions.length - 1);
  const look = () => {
    const place = own.current!;
    const found = place.selectionStart === place.selectionEnd ? tokenAt(place.value, place.selectionStart) : null;
    setToken((before) => (before && found && before.query === found.query && before.start === found.start ? before : found));
    setAt(0);
  };
  const take = ({ inserted }: Suggestion) => {
    const next = completed(value, token!, inserted);
    onChange(next.text);
    setToken(null);
    requestAnimationFrame(() => {
      own.current?.focus();
      own.current?.setSelectionRange(next.caret, next.caret);
    });
  };
  const onKey = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (isOpen && step) setAt((chosen + step + suggestions.length) % suggestions.length);
    else if (isOpen && (event.key === "Enter" || event.key === "Tab") && !event.altKey && !event.ctrlKey && !event.metaKey) take(suggestions[chosen]!);
    else if (isOpen && event.key === "Escape") setToken(null);
    else return onKeyDown(event);
    event.preventDefault();
    event.stopPropagation();
  };
  useEffect(() => {
    if (isFocused) own.current?.focus();
  }, [isFocused]);
  const lines = value.split("\n").length;
  return (
    <div className="prompt">
      <textarea
        ref={(place) => {
          own.current = place;
          if (typeof field === "function") field(place);
          else if (field) field.current = place;
        }}
        className={className}
        value={value}
        rows={Math.min(rowsMax, Math.max(rowsMin, lines))}
        aria-label={label}
        placeholder={placeholder}
        aria-haspopup="listbox"
        aria-controls={isOpen ? listId : undefined}
        aria-autocomplete="list"
        aria-activedescendant={isOpen ? `${listId}-${chosen}` : undefined}
        onChange={(event) => (onChange(event.target.value), look())}
        onSelect={look}
        onBlur={() => setToken(null)}
        onKeyDown={onKey}
      />
      {isOpen && (
        <ul className="suggestions" role="listbox" id={listId} aria-label={token.kind === "file" ? "Files" : "Templates and commands"}>
          {suggestions.map((one, index) => (
            <li key={one.key} id={`${listId}-${index}`} role="option" aria-selected={index === chosen} onMouseDown={(event) => (event.preventDefault(), take(one))}>
              <Icon name={one.icon} />
              <span className={one.icon === "read" ? "fixed clipped" : "clipped"}>{inOneLine(one.name, "code")}</span>
              {one.note && <span className="faint clipped">{inOneLine(one.note)}</span>}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
