/**
 * Nothing is answered by accident: not by the click that brings the window to the front, not by a key that is held down,
 * and not within a moment after a card has appeared or moved.
 */

import { useCallback, useLayoutEffect, useRef, type RefObject } from "react";

const STEADY_MS = 400;
const FOCUS_CLICK_MS = 300;

let focusedAt_ms = -Infinity;
let isRaising = false;
window.addEventListener("focus", () => (focusedAt_ms = performance.now()));
window.addEventListener("pointerdown", () => (isRaising = performance.now() - focusedAt_ms < FOCUS_CLICK_MS), { capture: true });
window.addEventListener("keydown", () => (isRaising = false), { capture: true });

/** Whether this click began with bringing the window to the front. */
export function isRaisingClick(): boolean {
  return isRaising;
}

interface Place {
  readonly top: number;
  readonly since_ms: number;
}

/** For a list of cards with `data-key`: which of them have been where they are for long enough to be answered. */
export function useSteadyCards(list: RefObject<HTMLElement | null>): (key: string) => boolean {
  const places = useRef<ReadonlyMap<string, Place>>(new Map());
  useLayoutEffect(() => {
    const now = performance.now();
    const found = new Map<string, Place>();
    for (const card of list.current?.querySelectorAll<HTMLElement>("[data-key]") ?? []) {
      const [key, top] = [card.dataset["key"]!, card.offsetTop];
      const known = places.current.get(key);
      found.set(key, known && Math.abs(known.top - top) < 1 ? known : { top, since_ms: now });
    }
    places.current = found;
  });
  return useCallback((key: string) => performance.now() - (places.current.get(key)?.since_ms ?? Infinity) >= STEADY_MS && !isRaising, []);
}

/** For a card that is shown alone: steady since `key` is shown. */
export function useSteady(key: string): () => boolean {
  const since_ms = useRef(Infinity);
  useLayoutEffect(() => {
    since_ms.current = performance.now();
  }, [key]);
  return useCallback(() => performance.now() - since_ms.current >= STEADY_MS && !isRaising, []);
}
