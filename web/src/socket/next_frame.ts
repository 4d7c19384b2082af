/** A hidden page draws no frames; it still has to keep up with what comes. */
const HIDDEN_PAUSE_MS = 500;

/** Once, before the next frame is drawn; returns how to call it off. */
export function onNextFrame(apply: () => void): () => void {
  let frame = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const cancel = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
  const once = () => {
    cancel();
    apply();
  };
  frame = requestAnimationFrame(once);
  timer = setTimeout(once, HIDDEN_PAUSE_MS);
  return cancel;
}
