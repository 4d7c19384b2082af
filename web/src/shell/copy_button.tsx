import { useEffect, useState } from "react";
import { Icon } from "./icon.js";

const THANKS_MS = 1_500;

export function CopyButton({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), THANKS_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = () => void navigator.clipboard?.writeText(text).then(() => setCopied(true), () => undefined);
  return (
    <button type="button" className="quiet small" onClick={copy} aria-label={isCopied ? "Copied" : "Copy"} title="Copy">
      <Icon name={isCopied ? "check" : "copy"} />
    </button>
  );
}
