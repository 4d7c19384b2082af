/** A long list of which only what is near the screen is in the page; the rest is as high as it was, or as it will be. */

import { useEffect, useRef, useState, type ReactNode } from "react";

const CHUNK = 12;
const NEAR = "600px 0px";

interface WindowedProps<Item> {
  readonly items: readonly Item[];
  readonly keyOf: (item: Item) => string;
  readonly rowHeight: number;
  /** The cursor: what it is on is always there. */
  readonly cursor: string;
  readonly children: (item: Item) => ReactNode;
}

export function Windowed<Item>({ items, keyOf, rowHeight, cursor, children }: WindowedProps<Item>) {
  if (items.length <= CHUNK * 2) return items.map(children);
  const chunks: Item[][] = [];
  for (let from = 0; from < items.length; from += CHUNK) chunks.push(items.slice(from, from + CHUNK));
  return chunks.map((chunk, index) => (
    <Chunk key={index} isNeeded={chunk.some((item) => keyOf(item) === cursor)} guess={chunk.length * rowHeight} isFirst={index === 0}>
      {() => chunk.map(children)}
    </Chunk>
  ));
}

function Chunk({
  isNeeded,
  isFirst,
  guess,
  children,
}: {
  readonly isNeeded: boolean;
  readonly isFirst: boolean;
  readonly guess: number;
  readonly children: () => ReactNode;
}) {
  const place = useRef<HTMLDivElement>(null);
  const height = useRef(guess);
  const [isNear, setNear] = useState(isFirst);
  useEffect(() => {
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        if (!entry.isIntersecting && entry.boundingClientRect.height) height.current = entry.boundingClientRect.height;
        setNear(entry.isIntersecting);
      },
      { root: place.current!.closest(".scroll"), rootMargin: NEAR },
    );
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);
  const isThere = isNear || isNeeded;
  return (
    <div ref={place} className="chunk" style={isThere ? undefined : { height: height.current }}>
      {isThere && children()}
    </div>
  );
}
