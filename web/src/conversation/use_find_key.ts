import { useEffect } from "react";

/** Ctrl+F opens our own search; pressed again inside of it, the browser's. */
export function useFindKey(onFind: () => void): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "f" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      const field = document.querySelector<HTMLInputElement>(".find input");
      if (document.querySelector("dialog[open]") || (field && field === document.activeElement)) return;
      event.preventDefault();
      if (field) field.select(), field.focus();
      else onFind();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [onFind]);
}
