import { memo } from "react";
import { TallBox } from "../shell/tall_box.js";
import type { DiffLine } from "../text/line_diff.js";
import { Revealed } from "../text/revealed.js";

const SIGNS = { same: " ", added: "+", removed: "−", place: "" } as const;
/** So many lines are shown in a card; the file itself has them all. */
const SHOWN_MAX = 600;

interface DiffViewProps {
  readonly lines: readonly DiffLine[];
  /** Further ones that are not here. */
  readonly hiddenCount?: number;
}

export const DiffView = memo(function DiffView({ lines, hiddenCount = 0 }: DiffViewProps) {
  const hidden = Math.max(0, lines.length - SHOWN_MAX) + hiddenCount;
  return (
    <TallBox label="Changed lines" className="diff">
      <div className="diff-lines">
        {lines.slice(0, SHOWN_MAX).map((line, index) => (
          <div key={index} className={`diff-line diff-${line.kind}`}>
            <span className="diff-sign" aria-hidden="true">
              {SIGNS[line.kind]}
            </span>
            <span>{line.text ? <Revealed text={line.text} /> : line.kind === "place" ? "" : " "}</span>
          </div>
        ))}
        {hidden > 0 && <div className="diff-line diff-place">{hidden} more lines are not shown</div>}
      </div>
    </TallBox>
  );
});

export function diffCounts(lines: readonly DiffLine[]): { readonly added: number; readonly removed: number } {
  let [added, removed] = [0, 0];
  for (const line of lines) {
    if (line.kind === "added") added++;
    else if (line.kind === "removed") removed++;
  }
  return { added, removed };
}
