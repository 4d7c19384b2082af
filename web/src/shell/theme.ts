/** Light or dark: as the system is set, until it is chosen here. */

import { useEffect } from "react";
import { useStored } from "./stored.js";

export type ThemeChoice = "system" | "light" | "dark";

const DARK = "(prefers-color-scheme: dark)";
const KEY = "harness.theme";

function asChoice(text: string | null): ThemeChoice {
  return text === "light" || text === "dark" ? text : "system";
}

function shown(choice: ThemeChoice): "light" | "dark" {
  return choice !== "system" ? choice : window.matchMedia(DARK).matches ? "dark" : "light";
}

export interface ThemeSetting {
  readonly choice: ThemeChoice;
  readonly theme: "light" | "dark";
  readonly choose: (choice: ThemeChoice) => void;
  readonly toggle: () => void;
}

export function useTheme(): ThemeSetting {
  const [text, setText] = useStored(KEY);
  const choice = asChoice(text);
  const theme = shown(choice);
  useEffect(() => {
    const show = () => (document.documentElement.dataset["theme"] = shown(choice));
    show();
    const media = window.matchMedia(DARK);
    media.addEventListener("change", show);
    return () => media.removeEventListener("change", show);
  }, [choice]);
  return { choice, theme, choose: setText, toggle: () => setText(theme === "dark" ? "light" : "dark") };
}
