import type { ReviewState } from "./use_review.js";

/** How diffs are shown. */
export function SplitChoice({ review: { isSplit, ignoresSpaces, choose } }: { review: ReviewState }) {
  return (
    <div className="changes-row">
      <button type="button" className="quiet small" aria-pressed={ignoresSpaces} onClick={() => choose({ ignoresSpaces: !ignoresSpaces })} title="Lines that differ in nothing but spaces are the same (s)">
        Ignore spaces
      </button>
      <div className="changes-segments" role="group" aria-label="How to show">
        <button type="button" aria-pressed={!isSplit} onClick={() => choose({ isSplit: false })}>
          Unified
        </button>
        <button type="button" aria-pressed={isSplit} onClick={() => choose({ isSplit: true })}>
          Side by side
        </button>
      </div>
    </div>
  );
}
