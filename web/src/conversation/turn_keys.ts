/** `[` and `]` go to the turn before and after. */

import { useEffect, useMemo, type RefObject } from "react";
import type { VirtualizerHandle } from "virtua";
import { isWriting } from "../shell/keys.js";
import type { Item } from "./items.js";

export function useTurnKeys(items: readonly Item[], list: RefObject<VirtualizerHandle | null>, show: (index: number, align: "start") => void): void {
  const turns = useMemo(() => items.flatMap((item, index) => (item.kind === "turn" ? [index] : [])), [items]);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
      if ((event.key !== "[" && event.key !== "]") || document.querySelector("dialog[open]") || !list.current) return;
      const at = list.current.findItemIndex(list.current.scrollOffset + 1);
      const wanted = event.key === "]" ? turns.find((index) => index > at) : turns.findLast((index) => index < at);
      if (wanted === undefined) return;
      event.preventDefault();
      show(wanted, "start");
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [turns, list, show]);
}
