/** The end of the conversation stays in sight while it grows, for a reader who is at the end. */

import { useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";

/** So close to the end counts as being there. */
const NEAR_PX = 24;

export interface FollowedEnd {
  readonly isAtEnd: boolean;
  readonly goToEnd: () => void;
  /** The reader wants to be elsewhere: what grows does not take them back. */
  readonly leave: () => void;
}

export function useFollowedEnd(viewport: RefObject<HTMLElement | null>, content: RefObject<HTMLElement | null>): FollowedEnd {
  const [isAtEnd, setAtEnd] = useState(true);
  const follows = useRef(true);
  const goToEnd = useCallback(() => {
    follows.current = true;
    setAtEnd(true);
    const place = viewport.current;
    if (place) place.scrollTop = place.scrollHeight;
  }, [viewport]);
  const leave = useCallback(() => {
    follows.current = false;
    setAtEnd(false);
  }, []);
  useLayoutEffect(goToEnd, [goToEnd]);
  useEffect(() => {
    const place = viewport.current!;
    let lastTop = place.scrollTop;
    const onScroll = () => {
      const isNear = place.scrollHeight - place.scrollTop - place.clientHeight <= NEAR_PX;
      // What grows above moves the end away without scrolling: only scrolling up leaves it.
      if (isNear) follows.current = true;
      else if (place.scrollTop < lastTop - 1) follows.current = false;
      lastTop = place.scrollTop;
      setAtEnd(follows.current);
    };
    const observer = new ResizeObserver(() => {
      if (follows.current) place.scrollTop = place.scrollHeight;
      lastTop = place.scrollTop;
    });
    observer.observe(place);
    observer.observe(content.current!);
    place.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      place.removeEventListener("scroll", onScroll);
    };
  }, [viewport, content]);
  return { isAtEnd, goToEnd, leave };
}
