/** What was written and not sent, per conversation. It stays in this browser. */

import { useCallback, useEffect, useState } from "react";

const PREFIX = "harness.draft.";
const DRAFTS_MAX = 50;
const LENGTH_MAX = 20_000;

export function useDraft(name: string): readonly [string, (text: string) => void] {
  const [text, setText] = useState(() => read(name));
  useEffect(() => {
    const listener = (changed: string, next: string) => changed === name && setText(next);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, [name]);
  const write = useCallback(
    (next: string) => {
      setText(next);
      keep(name, next);
    },
    [name],
  );
  return [text, write];
}

const listeners = new Set<(name: string, text: string) => void>();

/** Add to the end of what is being written, wherever that is shown. */
export function addToDraft(name: string, text: string): void {
  const written = read(name);
  const next = written.trim() ? `${written.trimEnd()}\n\n${text}` : text;
  keep(name, next);
  listeners.forEach((listener) => listener(name, next));
}

function read(name: string): string {
  try {
    return localStorage.getItem(PREFIX + name) ?? "";
  } catch {
    return ""; // storage is switched off
  }
}

function keep(name: string, text: string): void {
  try {
    if (!text.trim()) localStorage.removeItem(PREFIX + name);
    else if (text.length <= LENGTH_MAX) {
      localStorage.setItem(PREFIX + name, text);
      forgetOthers(PREFIX + name);
    }
  } catch {
    // full or switched off: the draft lives as long as the page
  }
}

function forgetOthers(current: string): void {
  const drafts = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX) && key !== current);
  for (const key of drafts.slice(0, Math.max(0, drafts.length + 1 - DRAFTS_MAX))) localStorage.removeItem(key);
}
