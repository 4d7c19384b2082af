/** A piece of code, with its language, a way to copy it, and as much colour as can be had without a grammar. */

import { memo, useMemo } from "react";
import { CopyButton } from "../shell/copy_button.js";
import { coloured } from "./colouring.js";
import { Revealed } from "./revealed.js";
import { revealed } from "./unseen.js";

/** Longer ones stay plain: colour is not worth thousands of elements. */
const COLOURED_MAX = 20_000;

export const Code = memo(function Code({ source, language }: { source: string; language: string }) {
  const isPlain = source.length > COLOURED_MAX || /^(?:|text|txt|plain|output|console|log)$/i.test(language);
  const pieces = useMemo(() => (isPlain ? null : coloured(source, language)), [isPlain, source, language]);
  return (
    <div className="code">
      <div className="code-head">
        <span>{revealed(language)}</span>
        <CopyButton text={source} />
      </div>
      <pre tabIndex={0}>
        <code>
          {pieces
            ? pieces.map((piece, index) =>
                piece.kind ? (
                  <span key={index} className={`code-${piece.kind}`}>
                    <Revealed text={piece.text} />
                  </span>
                ) : (
                  <Revealed key={index} text={piece.text} />
                ),
              )
            : <Revealed text={source} />}
        </code>
      </pre>
    </div>
  );
});
