/** A small text that this browser remembers, the same in all its tabs and in every part of the page. */

import { useSyncExternalStore } from "react";

const values = new Map<string, string | null>();
const listeners = new Set<() => void>();

function notify(): void {
  for (const listener of listeners) listener();
}

window.addEventListener("storage", ({ key, newValue }) => {
  if (key === null) values.clear();
  else if (values.has(key)) values.set(key, newValue);
  notify();
});

export function readStored(key: string): string | null {
  if (!values.has(key)) {
    let value: string | null = null;
    try {
      value = localStorage.getItem(key);
    } catch {
      // No storage: it lasts as long as the page does.
    }
    values.set(key, value);
  }
  return values.get(key) ?? null;
}

export function store(key: string, value: string): void {
  values.set(key, value);
  try {
    localStorage.setItem(key, value);
  } catch {
    // As above.
  }
  notify();
}

export function subscribeStored(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useStored(key: string): readonly [string | null, (value: string) => void] {
  const value = useSyncExternalStore(subscribeStored, () => readStored(key));
  return [value, (next) => store(key, next)];
}
