/** A formula as MathML, which browsers draw themselves: no fonts, no styles. Loaded when there is one. */

import katex from "katex";
import { useLayoutEffect, useRef, useState } from "react";
import { Revealed } from "./revealed.js";

const OPTIONS = { output: "mathml", throwOnError: true, trust: false, strict: "ignore", maxExpand: 200, maxSize: 20 } as const;

export default function Formula({ source, isDisplay }: { source: string; isDisplay: boolean }) {
  const place = useRef<HTMLSpanElement>(null);
  const [isBroken, setBroken] = useState(false);
  useLayoutEffect(() => {
    try {
      katex.render(source, place.current!, { ...OPTIONS, displayMode: isDisplay });
      setBroken(false);
    } catch {
      setBroken(true); // it is shown as it was written
    }
  }, [source, isDisplay]);
  return (
    <>
      <span ref={place} className={isDisplay ? "formula display" : "formula"} hidden={isBroken} />
      {isBroken && (
        <code>
          <Revealed text={source} />
        </code>
      )}
    </>
  );
}
