import { useSyncExternalStore } from "react";

const NARROW = "(max-width: 767.98px)";

/** Tabs at the bottom, and questions that need room on a screen of their own. 200 % zoom is narrow too. */
export function useNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      const media = window.matchMedia(NARROW);
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    () => window.matchMedia(NARROW).matches,
  );
}
