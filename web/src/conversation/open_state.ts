/** Which details are open, also while they are not mounted: only what is visible is mounted. */

import { createContext, useContext, useState } from "react";

export const OpenStateContext = createContext<Map<string, unknown>>(new Map());

export function useOpenState<Value>(key: string, initial: Value): readonly [Value, (value: Value) => void] {
  const stored = useContext(OpenStateContext);
  const [value, setValue] = useState<Value>(() => (stored.has(key) ? (stored.get(key) as Value) : initial));
  const set = (next: Value) => {
    stored.set(key, next);
    setValue(next);
  };
  return [value, set];
}
