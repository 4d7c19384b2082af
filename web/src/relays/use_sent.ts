import { useEffect, useState } from "react";

/** If the question is still there after this, the answer was lost or refused: it may be given again. */
const PATIENCE_MS = 5_000;

export function useSent(): readonly [boolean, (isSent: boolean) => void] {
  const [isSent, setSent] = useState(false);
  useEffect(() => {
    if (!isSent) return undefined;
    const timer = setTimeout(() => setSent(false), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [isSent]);
  return [isSent, setSent];
}
