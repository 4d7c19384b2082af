import { useEffect, useState } from "react";

/** If the question is still there after this, the answer was lost or refused: it may be given again. */
const PATIENCE_MS = 5_000;

export function useSent(): readonly [boolean, (isSent: boolean) => void] {
  const [isSent, setSent] = useState(false);
  useEffect(() => {
    if (!isSent) return undefined;
    // The button that was pressed is about to go, and the focus with it; on a touch screen that calls no keyboard.
    if (window.matchMedia("(hover: hover)").matches) document.querySelector<HTMLElement>(".composer-input")?.focus();
    const timer = setTimeout(() => setSent(false), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [isSent]);
  return [isSent, setSent];
}
