/** What a person opened stays open when it has been out of sight: only what is in sight is mounted. */

import { createContext, useContext, useState } from "react";

export const KeptContext = createContext<Map<string, unknown>>(new Map());

export function useKept<Value>(key: string, initial: Value): readonly [Value, (value: Value) => void] {
  const kept = useContext(KeptContext);
  const [value, setValue] = useState<Value>(() => (kept.has(key) ? (kept.get(key) as Value) : initial));
  const set = (next: Value) => {
    kept.set(key, next);
    setValue(next);
  };
  return [value, set];
}
