/**
 * A Mermaid diagram, shown as a picture: nothing in a picture runs or loads. Loaded when there is one.
 *
 * While it is made it is in the page for a moment, where the page's policy allows no script and no address but our own.
 */

import mermaid from "mermaid";
import { useEffect, useState } from "react";
import { Code } from "./code.js";

const LONGEST = 20_000;
const FIXED = ["secure", "securityLevel", "startOnLoad", "maxTextSize", "maxEdges", "themeCSS", "fontFamily", "altFontFamily", "fontSize", "htmlLabels", "dompurifyConfig"];

/** What would name an address to be loaded: such a diagram is shown as it was written. */
const LOADING = /\bimg\s*:|["']img["']\s*:|\burl\s*\(|@import|<\s*\/?\s*(?:img|image|script|iframe|object|embed|link|style|svg|use|video|audio)\b/i;

const canDraw = (source: string) => source.length <= LONGEST && !LOADING.test(source);

let made = 0;
/** Mermaid has one state for all: one diagram after the other. */
let last: Promise<unknown> = Promise.resolve();

async function drawn(source: string, isDark: boolean): Promise<string> {
  const { fontFamily, fontSize } = getComputedStyle(document.body);
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: "strict",
    theme: isDark ? "dark" : "neutral",
    htmlLabels: false,
    flowchart: { htmlLabels: false },
    maxTextSize: LONGEST,
    maxEdges: 400,
    suppressErrorRendering: true,
    fontFamily,
    themeVariables: { fontFamily, fontSize },
    secure: FIXED,
  });
  const id = `diagram-${++made}`;
  try {
    return (await mermaid.render(id, source)).svg;
  } finally {
    document.getElementById(`d${id}`)?.remove();
  }
}

export default function Diagram({ source }: { source: string }) {
  const [address, setAddress] = useState("");
  const [isBroken, setBroken] = useState(!canDraw(source));
  const [isSource, setSource] = useState(false);
  useEffect(() => {
    if (!canDraw(source)) return undefined;
    let isGone = false;
    let own = "";
    const isDark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
    last = last
      .then(() => (isGone ? "" : drawn(source, isDark)))
      .then(
        (svg) => {
          if (isGone || !svg) return;
          own = URL.createObjectURL(new Blob([sized(svg)], { type: "image/svg+xml" }));
          setAddress(own);
        },
        () => !isGone && setBroken(true),
      );
    return () => {
      isGone = true;
      if (own) URL.revokeObjectURL(own);
    };
  }, [source]);
  if (isBroken || isSource || !address)
    return (
      <>
        <Code source={source} language="mermaid" />
        {isSource && (
          <button type="button" className="quiet small" onClick={() => setSource(false)}>
            Show the diagram
          </button>
        )}
      </>
    );
  return (
    <figure className="diagram">
      <img src={address} alt={`Diagram: ${source.slice(0, 400)}`} />
      <button type="button" className="quiet small" onClick={() => setSource(true)}>
        Show the source
      </button>
    </figure>
  );
}

/** A picture needs a size of its own: what Mermaid gives is as wide as the place it is in. */
function sized(svg: string): string {
  const [, width, height] = /viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"/.exec(svg) ?? [];
  return width && height ? svg.replace(/^<svg([^>]*?) width="[^"]*"/, `<svg$1 width="${width}" height="${height}"`) : svg;
}
