/**
 * Whether all that is asked was on the screen. Nothing is allowed before: each part that is longer than its place says
 * when its end was shown.
 */

import { createContext, useCallback, useContext, useId, useLayoutEffect, useState } from "react";

type Note = (part: string, isRead: boolean) => void;

export const ReadingContext = createContext<Note>(() => undefined);

/** Of what asks: the value of its context, and whether every part in it was read to its end. */
export function useReading(): { readonly note: Note; readonly isRead: boolean } {
  const [unread, setUnread] = useState<ReadonlySet<string>>(new Set());
  const note = useCallback<Note>((part, isRead) => {
    setUnread((before) => {
      if (before.has(part) !== isRead) return before;
      const now = new Set(before);
      if (isRead) now.delete(part);
      else now.add(part);
      return now;
    });
  }, []);
  return { note, isRead: unread.size === 0 };
}

/** Of a part of it. */
export function useReadPart(isRead: boolean): void {
  const id = useId();
  const note = useContext(ReadingContext);
  useLayoutEffect(() => {
    note(id, isRead);
    return () => note(id, true);
  }, [note, id, isRead]);
}
