import { memo } from "react";
import { stretchesOf, type TextKind } from "./unseen.js";

/** A text in which what cannot be seen is marked. */
export const Revealed = memo(function Revealed({ text, kind = "code" }: { text: string; kind?: TextKind }) {
  const stretches = stretchesOf(text, kind);
  if (stretches.length === 1 && !stretches[0]!.mark) return text;
  return stretches.map(({ text: plain, mark }, index) =>
    mark ? (
      <span key={index} className="unseen-mark">
        {mark}
      </span>
    ) : (
      plain
    ),
  );
});
