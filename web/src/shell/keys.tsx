/** What the keyboard does outside of text fields, and the list of it. */

import { useEffect, useRef } from "react";

const KEYS: readonly { readonly where: string; readonly keys: readonly (readonly [string, string])[] }[] = [
  {
    where: "Everywhere",
    keys: [
      ["c", "New conversation"],
      ["/", "Search all sessions"],
      ["g  i", "Inbox"],
      ["g  u", "Usage"],
      ["g  f", "Fleets"],
      ["?", "These shortcuts"],
      ["Esc", "Leave a field, a dialog or a page"],
    ],
  },
  {
    where: "Inbox",
    keys: [
      ["j  k", "Next, previous"],
      ["↵", "Open"],
      ["y", "Allow once"],
      ["a", "Always allow, as printed"],
      ["n", "Deny…"],
      ["1 – 9", "Choose an answer"],
      ["Y", "Answer similar ones together…"],
      ["s", "Steer"],
      ["x", "Stop"],
      ["d", "Changes"],
    ],
  },
  {
    where: "Conversation",
    keys: [
      ["m", "Write a message"],
      ["↵", "Send or steer"],
      ["Alt ↵", "Queue"],
      ["Shift ↵", "New line"],
      ["[  ]", "Previous, next turn"],
      ["Ctrl f", "Find"],
      ["x", "Stop"],
      ["d", "Changes"],
    ],
  },
  {
    where: "Fleet",
    keys: [
      ["h  j  k  l", "Move over the cases"],
      ["↵", "Open a case"],
      ["Esc", "Close it; back"],
    ],
  },
  {
    where: "Review",
    keys: [
      ["j  k", "Next, previous file"],
      ["]  [", "Next, previous change"],
      ["v", "Seen"],
      ["m", "Note on a line"],
      ["r", "Revert…"],
      ["|", "Side by side"],
      ["w", "Wrap lines"],
      ["s", "Ignore spaces"],
    ],
  },
];

const PREFIX_MS = 1_200;

/** What a key does; “g i” is the one after the other. A key that does nothing here returns false. */
export type KeyTable = { readonly [key: string]: ((event: KeyboardEvent) => void | false) | undefined };

export function useKeys(table: KeyTable): void {
  const latest = useRef(table);
  latest.current = table;
  useEffect(() => {
    let prefix = "";
    let prefixAt_ms = 0;
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (isWriting(event.target)) return;
      const isPrefixed = prefix && event.timeStamp - prefixAt_ms < PREFIX_MS;
      const name = isPrefixed ? `${prefix} ${event.key}` : event.key;
      prefix = "";
      const act = Object.hasOwn(latest.current, name) ? latest.current[name] : undefined;
      if (act) {
        if (act(event) !== false) event.preventDefault();
      } else if (!isPrefixed && Object.keys(latest.current).some((key) => key.startsWith(`${event.key} `))) {
        prefix = event.key;
        prefixAt_ms = event.timeStamp;
      }
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

/** A place that letters are typed into; not a box to tick. */
export function isWriting(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !/^(?:checkbox|radio|range|button)$/.test(target.type);
  return target.isContentEditable || /^(?:TEXTAREA|SELECT)$/.test(target.tagName);
}

export function KeysDialog({ isOpen, onClose }: { readonly isOpen: boolean; readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    <dialog ref={dialog} className="keys" onClose={onClose} aria-label="Keyboard shortcuts" onClick={(event) => event.target === dialog.current && onClose()}>
      <h2>Keyboard shortcuts</h2>
      <div className="keys-groups">
        {KEYS.map(({ where, keys }) => (
          <section key={where}>
            <h3>{where}</h3>
            <dl>
              {keys.map(([key, what]) => (
                <div key={key}>
                  <dt>
                    {key.split(/\s{2,}/).map((name) => (
                      <kbd key={name}>{name}</kbd>
                    ))}
                  </dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <form method="dialog">
        <button className="button">Close</button>
      </form>
    </dialog>
  );
}
