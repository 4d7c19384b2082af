/** `[` and `]` go to the turn before and after. */

import { useMemo, type RefObject } from "react";
import type { VirtualizerHandle } from "virtua";
import { useKeys } from "../shell/keys.js";
import type { Item } from "./items.js";

export function useTurnKeys(items: readonly Item[], list: RefObject<VirtualizerHandle | null>, show: (index: number, align: "start") => void): void {
  const turns = useMemo(() => items.flatMap((item, index) => (item.kind === "turn" ? [index] : [])), [items]);
  const go = (isLater: boolean) => {
    const shown = list.current;
    if (!shown) return;
    const at = shown.findItemIndex(shown.scrollOffset + 1);
    const wanted = isLater ? turns.find((index) => index > at) : turns.findLast((index) => index < at);
    if (wanted !== undefined) show(wanted, "start");
  };
  useKeys({ "[": () => go(false), "]": () => go(true) });
}
