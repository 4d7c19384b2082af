/** Light or dark: as the system says, until somebody says otherwise here. */

import { useEffect, useState } from "react";

type Theme = "light" | "dark";
const KEY = "harness.theme";
const DARK = "(prefers-color-scheme: dark)";

function systemTheme(): Theme {
  return window.matchMedia(DARK).matches ? "dark" : "light";
}

export function useTheme(): { readonly theme: Theme; readonly toggle: () => void } {
  const [chosen, setChosen] = useState(() => document.documentElement.dataset["theme"] as Theme | undefined);
  const [system, setSystem] = useState(systemTheme);
  useEffect(() => {
    const media = window.matchMedia(DARK);
    const follow = () => setSystem(systemTheme());
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, []);
  const theme = chosen ?? system;
  const toggle = () => {
    const next: Theme = theme === "dark" ? "light" : "dark";
    document.documentElement.dataset["theme"] = next;
    setChosen(next);
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // No storage: it lasts until the page is reloaded.
    }
  };
  return { theme, toggle };
}
