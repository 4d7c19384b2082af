/** Drafts of answers, by question: they survive a redrawn card and a lost connection. */

import { useState } from "react";

const drafts = new Map<string, unknown>();
const DRAFTS_MAX = 200;

export function useDraft<Value>(key: string, first: Value): readonly [Value, (value: Value) => void] {
  const [value, setValue] = useState<Value>(() => (drafts.has(key) ? (drafts.get(key) as Value) : first));
  const change = (next: Value) => {
    drafts.delete(key);
    drafts.set(key, next);
    if (drafts.size > DRAFTS_MAX) drafts.delete(drafts.keys().next().value!);
    setValue(next);
  };
  return [value, change];
}
