import { flushSync } from "react-dom";

/**
 * Put something above what is being read, and leave that where it is on the screen.
 *
 * Sizes of what comes into sight settle over some frames; whoever scrolls meanwhile is left alone.
 */
export function keepPlace(button: HTMLElement, change: () => void): void {
  const viewport = button.closest<HTMLElement>(".viewport");
  const anchor = nextBelow(button);
  if (!viewport || !anchor) return change();
  const wanted = anchor.getBoundingClientRect().top;
  flushSync(change);
  let frames = 20;
  let isMoved = false;
  const stop = () => (isMoved = true);
  viewport.addEventListener("wheel", stop, { once: true, passive: true });
  viewport.addEventListener("touchmove", stop, { once: true, passive: true });
  const settle = () => {
    if (isMoved || !anchor.isConnected || frames-- <= 0) return;
    const off = anchor.getBoundingClientRect().top - wanted;
    if (Math.abs(off) >= 1) viewport.scrollTop += off;
    requestAnimationFrame(settle);
  };
  settle();
}

/** What stands under the button, in whatever it stands in. */
function nextBelow(button: HTMLElement): HTMLElement | null {
  for (let place = button.nextElementSibling; place; place = place.nextElementSibling)
    if (place instanceof HTMLElement && place.getBoundingClientRect().height > 0) return place;
  return null;
}
