import { memo } from "react";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { Markdown } from "../text/markdown.js";
import { useOpenState } from "./open_state.js";

interface FoldedProps {
  readonly id: string;
  readonly label: string;
  readonly text: string;
  readonly isGrowing?: boolean;
}

/** Words beside the conversation, like what the model thinks: folded, with the last ones in sight while they grow. */
export const Folded = memo(function Folded({ id, label, text, isGrowing = false }: FoldedProps) {
  const [isOpen, setOpen] = useOpenState(`folded ${id}`, false);
  return (
    <div className="folded" data-growing={isGrowing || undefined}>
      <button type="button" className="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span className="turner">
          <Icon name="chevron" />
        </span>
        <span className="folded-label">{label}</span>
        {!isOpen && <span className="folded-glimpse">{inOneLine(glimpse(text, isGrowing))}</span>}
      </button>
      {isOpen && <Markdown text={text} isGrowing={isGrowing} />}
    </div>
  );
});

const GLIMPSE_MAX = 120;

function glimpse(text: string, isGrowing: boolean): string {
  const plain = (piece: string) => piece.replace(/[*`#>]/g, "").replace(/\s+/g, " ").trim();
  return isGrowing ? plain(text.slice(-GLIMPSE_MAX)) : plain(text.slice(0, GLIMPSE_MAX));
}
