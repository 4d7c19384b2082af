/** A box that does not grow beyond its place, shows how much of it is hidden, and opens. */

import { useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { useReadPart } from "../inbox/reading.js";

interface TallBoxProps {
  readonly label: string;
  readonly className?: string;
  /** There is more than the children: `onEnd` is called when their end is reached. */
  readonly isMore?: boolean;
  readonly onEnd?: () => void;
  readonly children: ReactNode;
}

const NEAR_PX = 4;

export function TallBox({ label, className = "", isMore = false, onEnd, children }: TallBoxProps) {
  const box = useRef<HTMLDivElement>(null);
  const [hidden, setHidden] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const [isAtEnd, setAtEnd] = useState(false);
  useReadPart(!isMore && (hidden === 0 || isOpen || isAtEnd));
  useLayoutEffect(() => {
    const place = box.current!;
    const look = () => setHidden(hiddenLines(place));
    const observer = new ResizeObserver(look);
    observer.observe(place);
    observer.observe(place.firstElementChild!);
    look();
    return () => observer.disconnect();
  }, []);
  const onScroll = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current!;
    if (scrollTop + clientHeight < scrollHeight - NEAR_PX) return;
    setAtEnd(!isMore);
    onEnd?.();
  };
  return (
    <div className="tall" data-open={isOpen || undefined}>
      <div ref={box} className={`tall-box ${className}`} role="group" aria-label={label} tabIndex={hidden > 0 ? 0 : undefined} onScroll={onScroll}>
        <div>{children}</div>
      </div>
      {(hidden > 0 || isOpen) && !isMore && (
        <button type="button" className="tall-more" onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Show less" : `${hidden.toLocaleString("en")} more ${hidden === 1 ? "line" : "lines"}: show all`}
        </button>
      )}
    </div>
  );
}

function hiddenLines(place: HTMLElement): number {
  const hidden = place.scrollHeight - place.clientHeight;
  const height = parseFloat(getComputedStyle(place).lineHeight) || 18;
  return hidden > NEAR_PX ? Math.max(1, Math.round(hidden / height)) : 0;
}
