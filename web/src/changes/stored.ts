/** What this browser remembers of reviews: how diffs are shown, and which files were seen. */

import { useState } from "react";
import type { ChangedFile } from "./changes_api.js";

const VIEW = "harness.changes.view";
const SEEN = "harness.changes.seen";
const SESSIONS_MAX = 50;

export interface DiffChoice {
  /** null: side by side where there is room. */
  readonly isSplit: boolean | null;
  readonly isWrapped: boolean;
  /** Lines that differ in nothing but spaces are the same. */
  readonly ignoresSpaces: boolean;
}

const USUAL: DiffChoice = { isSplit: null, isWrapped: true, ignoresSpaces: false };

function read<Value>(key: string, fallback: Value): Value {
  try {
    return (JSON.parse(localStorage.getItem(key) ?? "null") as Value | null) ?? fallback;
  } catch {
    return fallback;
  }
}

function write(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // No storage: it lasts until the page is reloaded.
  }
}

export function useDiffChoice(): readonly [DiffChoice, (change: Partial<DiffChoice>) => void] {
  const [choice, setChoice] = useState(() => ({ ...USUAL, ...read<Partial<DiffChoice>>(VIEW, {}) }));
  const change = (changed: Partial<DiffChoice>) => {
    const next = { ...choice, ...changed };
    setChoice(next);
    write(VIEW, next);
  };
  return [choice, change];
}

type SeenFiles = { readonly [path: string]: string };

/** A file that changes again is another one. */
const markOf = ({ digest, added, removed }: ChangedFile) => `${digest}:${added}:${removed}`;

export interface Seen {
  readonly has: (file: ChangedFile) => boolean;
  readonly toggle: (file: ChangedFile, isSeen?: boolean) => void;
}

export function useSeen(sessionId: string): Seen {
  const [files, setFiles] = useState<SeenFiles>(() => read<{ [session: string]: SeenFiles }>(SEEN, {})[sessionId] ?? {});
  const has = (file: ChangedFile) => files[file.path] === markOf(file);
  const toggle = (file: ChangedFile, isSeen = !has(file)) => {
    const { [file.path]: _before, ...others } = files;
    const next = isSeen ? { ...others, [file.path]: markOf(file) } : others;
    setFiles(next);
    const { [sessionId]: _old, ...sessions } = read<{ [session: string]: SeenFiles }>(SEEN, {});
    write(SEEN, Object.fromEntries([...Object.entries(sessions).slice(1 - SESSIONS_MAX), [sessionId, next]]));
  };
  return { has, toggle };
}
