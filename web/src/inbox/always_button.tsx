/** “Always allow” with the rule and its reach in print: the text of the button is what is granted. */

import { useEffect, useRef, useState } from "react";
import { Icon } from "../shell/icon.js";
import { Revealed } from "../text/revealed.js";
import type { AskOption } from "./row.js";

const REACHES = { conversation: "in this conversation", project: "in this project", everywhere: "everywhere" } as const;

/** `cwd`: paths in it are shown from there; the whole rule is the title. */
export function AlwaysLabel({ option, cwd = "" }: { readonly option: AskOption; readonly cwd?: string }) {
  const inFolder = cwd ? option.label.replaceAll(`: ${cwd}/`, ": ") : option.label;
  const shortened = inFolder.replace(/␊{4,}/g, (marks) => `␊×${marks.length}`); // spelled out by the server
  const [, words = "Always allow ", granted = shortened] = /^(Always allow )([^]*)$/.exec(shortened) ?? [];
  const reach = option.reach ? REACHES[option.reach] : "in this conversation";
  return (
    <span className="always-label" title={option.label}>
      {words}
      <code>
        <Revealed text={granted} />
      </code>{" "}
      {reach}
    </span>
  );
}

interface AlwaysButtonProps {
  readonly options: readonly AskOption[];
  readonly cwd: string;
  readonly isOff: boolean;
  readonly hasKey: boolean;
  readonly onChoose: (option: AskOption) => void;
}

export function AlwaysButton({ options, cwd, isOff, hasKey, onChoose }: AlwaysButtonProps) {
  const [isOpen, setOpen] = useState(false);
  const place = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (event: Event) => !place.current?.contains(event.target as Node) && setOpen(false);
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, [isOpen]);
  const [first, ...others] = options;
  if (!first) return null;
  return (
    <span
      className="always"
      ref={place}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !isOpen) return;
        event.preventDefault();
        event.stopPropagation();
        setOpen(false);
      }}
    >
      <button type="button" className={others.length ? "button split always-first" : "button always-first"} disabled={isOff} onClick={() => onChoose(first)}>
        <AlwaysLabel option={first} cwd={cwd} />
        {hasKey && <kbd>a</kbd>}
      </button>
      {others.length > 0 && (
        <button
          type="button"
          className="button caret"
          disabled={isOff}
          aria-expanded={isOpen}
          aria-label="Choose how far “always” reaches"
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name="caret" isSmall />
        </button>
      )}
      {isOpen && (
        <span className="menu" role="group" aria-label="Always allow">
          {others.map((option) => (
            <button key={option.id} type="button" className="menu-item" disabled={isOff} onClick={() => onChoose(option)}>
              <AlwaysLabel option={option} cwd={cwd} />
            </button>
          ))}
        </span>
      )}
    </span>
  );
}
