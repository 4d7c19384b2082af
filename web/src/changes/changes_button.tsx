import { Icon } from "../shell/icon.js";
import { useKeys } from "../shell/keys.js";
import { Delta } from "./amounts.js";
import { useChanges } from "./use_changes.js";
import "./changes_button.css";

interface ChangesButtonProps {
  readonly sessionId: string;
  readonly revision: string;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

/** In the header of a conversation: how much it changed; opens the changes. Nothing while nothing was changed. */
export function ChangesButton({ sessionId, revision, isOpen, onToggle }: ChangesButtonProps) {
  const { list } = useChanges(sessionId, "conversation", revision);
  const isShown = !!list?.files.length;
  useKeys({ d: isShown && !isOpen ? onToggle : undefined });
  if (!list || !isShown) return null;
  return (
    <button type="button" className="changes-button" aria-pressed={isOpen} onClick={onToggle} title="Show the changed files (d)">
      <Icon name="diff" /> <span className="changes-wide-only">Changes</span>
      <Delta added={list.added} removed={list.removed} isAtLeast={!list.isCountComplete} />
    </button>
  );
}
