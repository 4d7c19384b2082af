import { useEffect, useState } from "react";
import { Icon } from "./icon.js";

const THANKS_MS = 1_500;

/** `text` may be made when it is asked for. */
export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), THANKS_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = () => void navigator.clipboard?.writeText(typeof text === "string" ? text : text()).then(() => setCopied(true), () => undefined);
  return (
    <button type="button" className="quiet small" onClick={copy} aria-label={isCopied ? "Copied" : label} title={label}>
      <Icon name={isCopied ? "check" : "copy"} />
    </button>
  );
}
