import { Icon } from "../shell/icon.js";
import { useKeys } from "../shell/keys.js";
import { Delta } from "./amounts.js";
import type { ChangeList } from "./changes_api.js";
import "./changes_button.css";

interface ChangesButtonProps {
  readonly list: ChangeList | null;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

/** In the header of a conversation: how much it changed; opens the changes. Nothing while nothing was changed. */
export function ChangesButton({ list, isOpen, onToggle }: ChangesButtonProps) {
  const isShown = !!list && (list.files.length > 0 || !!list.moreFiles);
  useKeys({ d: isShown && !isOpen ? onToggle : undefined });
  if (!list || !isShown) return null;
  return (
    <button type="button" className="changes-button" aria-pressed={isOpen} onClick={onToggle} title="Show the changed files (d)">
      <Icon name="diff" /> <span className="changes-wide-only">Changes</span>
      <Delta added={list.added} removed={list.removed} isAtLeast={!list.isCountComplete || !!list.moreFiles} />
    </button>
  );
}
