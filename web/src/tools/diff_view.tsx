import { memo } from "react";
import type { DiffLine } from "../text/line_diff.js";

const SIGNS = { same: " ", added: "+", removed: "−", place: "" } as const;
/** More lines than anybody reads in a card; the file itself has them all. */
const SHOWN_MAX = 600;

export const DiffView = memo(function DiffView({ lines }: { lines: readonly DiffLine[] }) {
  const hidden = lines.length - SHOWN_MAX;
  return (
    <div className="diff" role="group" aria-label="Changed lines" tabIndex={0}>
      <div className="diff-lines">
        {lines.slice(0, SHOWN_MAX).map((line, index) => (
          <div key={index} className={`diff-line diff-${line.kind}`}>
            <span className="diff-sign" aria-hidden="true">
              {SIGNS[line.kind]}
            </span>
            <span>{line.text || (line.kind === "place" ? "" : " ")}</span>
          </div>
        ))}
        {hidden > 0 && <div className="diff-line diff-place">{hidden} more lines</div>}
      </div>
    </div>
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
