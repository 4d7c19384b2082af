/** A box that does not grow beyond its place, shows how much of it is hidden, and opens. */

import { useLayoutEffect, useRef, useState, type ReactNode } from "react";

interface TallBoxProps {
  readonly label: string;
  readonly className?: string;
  readonly children: ReactNode;
}

export function TallBox({ label, className = "", children }: TallBoxProps) {
  const box = useRef<HTMLDivElement>(null);
  const [hidden, setHidden] = useState(0);
  const [isOpen, setOpen] = useState(false);
  useLayoutEffect(() => {
    const place = box.current!;
    const look = () => setHidden(hiddenLines(place));
    const observer = new ResizeObserver(look);
    observer.observe(place);
    observer.observe(place.firstElementChild!);
    look();
    return () => observer.disconnect();
  }, []);
  return (
    <div className="tall" data-open={isOpen || undefined}>
      <div ref={box} className={`tall-box ${className}`} role="group" aria-label={label} tabIndex={hidden > 0 ? 0 : undefined}>
        <div>{children}</div>
      </div>
      {(hidden > 0 || isOpen) && (
        <button type="button" className="tall-more" onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Show less" : `${hidden} more ${hidden === 1 ? "line" : "lines"}: show all`}
        </button>
      )}
    </div>
  );
}

function hiddenLines(place: HTMLElement): number {
  const hidden = place.scrollHeight - place.clientHeight;
  const height = parseFloat(getComputedStyle(place).lineHeight) || 18;
  return hidden > 4 ? Math.max(1, Math.round(hidden / height)) : 0;
}
