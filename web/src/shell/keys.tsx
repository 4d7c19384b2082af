/** What the keyboard does outside of text fields, and the list of it. */

import { useEffect, useRef } from "react";

const KEYS: readonly (readonly [string, string])[] = [
  ["Enter", "Send, or queue while the agent works"],
  ["Shift Enter", "New line"],
  ["Ctrl Enter", "Steer: send to the agent while it works"],
  ["Escape", "Stop the run, or leave a field"],
  ["/", "Search conversations; ↓ and Enter open one"],
  ["j  k", "Next, previous conversation"],
  ["n", "New conversation"],
  ["m", "Write a message"],
  ["?", "Show keyboard shortcuts"],
];

export interface KeyActions {
  readonly search: () => void;
  readonly move: (step: 1 | -1) => void;
  readonly start: () => void;
  readonly stop: () => void;
  readonly help: () => void;
}

export function useKeys(actions: KeyActions): void {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (isWriting(event.target)) return;
      const act = actionFor(event.key, latest.current);
      if (!act) return;
      event.preventDefault();
      act();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

function actionFor(key: string, actions: KeyActions): (() => void) | undefined {
  const table: { readonly [key: string]: () => void } = {
    "/": actions.search,
    j: () => actions.move(1),
    k: () => actions.move(-1),
    n: actions.start,
    m: () => document.querySelector<HTMLTextAreaElement>(".composer-input, .new textarea")?.focus(),
    "?": actions.help,
    Escape: actions.stop,
  };
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

export function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function KeysDialog({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    <dialog ref={dialog} className="keys" onClose={onClose} aria-label="Keyboard shortcuts" onClick={(event) => event.target === dialog.current && onClose()}>
      <h2>Keyboard shortcuts</h2>
      <dl>
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split(/\s+/).map((name) => (
                <kbd key={name}>{name}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button className="button">Close</button>
      </form>
    </dialog>
  );
}
