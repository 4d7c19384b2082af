/** Which questions have a card, in which order, and where the cursor is among all that can be reached with it. */

import { useCallback, useEffect, useRef, useState, type FocusEvent, type MouseEvent } from "react";
import type { Outcome, Outcomes } from "./answers.js";
import { arranged, askKey, type OpenAsk } from "./sections.js";
import type { InboxRow } from "./row.js";

export interface Card {
  readonly key: string;
  readonly one: OpenAsk;
  readonly outcome: Outcome | undefined;
  readonly isOver: boolean;
  readonly position: string;
}

export interface Cards {
  readonly list: readonly Card[];
  /** Of the section: nothing changes its place while the pointer or the cursor is in it. */
  readonly held: {
    readonly onPointerEnter: () => void;
    readonly onPointerLeave: () => void;
    readonly onFocus: () => void;
    readonly onBlur: (event: FocusEvent<HTMLElement>) => void;
  };
}

const isOver = (outcome: Outcome | undefined): outcome is Outcome => !!outcome && outcome.kind !== "sending" && outcome.kind !== "refused";

/** Every conversation that asks has one card, for its oldest question. */
export function useCards(rows: readonly InboxRow[], outcomes: Outcomes): Cards {
  const [isPointed, isFocused] = [useRef(false), useRef(false)];
  const order = useRef<readonly string[]>([]);
  const open = new Map<string, OpenAsk>();
  for (const row of rows) {
    const ask = row.asks.find(({ id }) => !isOver(outcomes.get(askKey(row.id, id))));
    if (ask) open.set(askKey(row.id, ask.id), { key: askKey(row.id, ask.id), row, ask });
  }
  const staying = new Set([...outcomes.values()].filter(isOver).map(({ key }) => key));
  order.current = arranged(order.current, [...open.keys()], staying, isPointed.current || isFocused.current);
  const list = order.current.map((key): Card => {
    const outcome = outcomes.get(key);
    const one = open.get(key) ?? outcome!;
    const count = one.row.asks.length;
    return { key, one, outcome, isOver: isOver(outcome), position: count > 1 ? `1 of ${count}` : "" };
  });
  const held = useRef<Cards["held"]>({
    onPointerEnter: () => (isPointed.current = true),
    onPointerLeave: () => (isPointed.current = false),
    onFocus: () => (isFocused.current = true),
    onBlur: ({ currentTarget, relatedTarget }) => (isFocused.current = currentTarget.contains(relatedTarget)),
  });
  return { list, held: held.current };
}

export interface Cursor {
  readonly at: string;
  readonly put: (stop: string) => void;
  readonly move: (step: 1 | -1) => void;
  /** Of what contains all stops. */
  readonly handlers: {
    readonly onPointerDownCapture: () => void;
    readonly onClick: (event: MouseEvent<HTMLElement>) => void;
    readonly onFocus: (event: FocusEvent<HTMLElement>) => void;
  };
}

const stopOf = (target: EventTarget | null): HTMLElement | null => (target instanceof Element ? target.closest<HTMLElement>("[data-stop]") : null);

function focusStop(stop: string): void {
  const place = document.querySelector<HTMLElement>(`[data-stop="${CSS.escape(stop)}"]`);
  place?.focus({ preventScroll: true });
  place?.scrollIntoView({ block: "nearest" });
}

/** A card that has the focus is replaced when it is answered: the focus stays in its place. */
function useHeldFocus(): () => void {
  const held = useRef("");
  useEffect(() => {
    const note = ({ target }: Event) => (held.current = stopOf(target)?.dataset["stop"] ?? "");
    document.addEventListener("focusin", note);
    document.addEventListener("pointerdown", note);
    return () => {
      document.removeEventListener("focusin", note);
      document.removeEventListener("pointerdown", note);
    };
  }, []);
  return useCallback(() => {
    if (!held.current || document.activeElement !== document.body) return;
    document.querySelector<HTMLElement>(`[data-stop="${CSS.escape(held.current)}"]`)?.focus({ preventScroll: true });
  }, []);
}

/**
 * The cursor is the real focus, once it was moved; it never comes by itself. What is pressed with a pointer does
 * not move it before it is released, as that would move what is pressed.
 */
export function useCursor(stops: readonly string[]): Cursor {
  const [wanted, setWanted] = useState("");
  const takesFocus = useRef(false);
  const isPressed = useRef(false);
  const at = stops.includes(wanted) ? wanted : (stops[0] ?? "");
  const latest = useRef({ stops, at });
  latest.current = { stops, at };
  const holds = useHeldFocus();
  useEffect(() => {
    if (takesFocus.current) focusStop(at);
    else holds();
    takesFocus.current = false;
  });
  const put = useCallback((stop: string) => {
    takesFocus.current = true;
    setWanted(stop);
    if (stop === latest.current.at) focusStop(stop);
  }, []);
  const move = useCallback(
    (step: 1 | -1) => {
      const { stops: all, at: from } = latest.current;
      const focused = stopOf(document.activeElement)?.dataset["stop"];
      if (focused === undefined) put(from);
      else put(all[Math.min(all.length - 1, Math.max(0, all.indexOf(focused) + step))] ?? from);
    },
    [put],
  );
  const handlers = useRef<Cursor["handlers"]>({
    onPointerDownCapture: () => (isPressed.current = true),
    onClick: ({ target }) => {
      isPressed.current = false;
      const stop = stopOf(target);
      if (stop && !(target as Element).closest("a, button, input, textarea, select, label")) put(stop.dataset["stop"]!);
    },
    onFocus: ({ target }) => {
      const stop = stopOf(target);
      if (!stop || isPressed.current) return;
      takesFocus.current = stop.classList.contains("thin");
      setWanted(stop.dataset["stop"]!);
    },
  });
  useEffect(() => {
    const release = () => setTimeout(() => (isPressed.current = false));
    window.addEventListener("pointerup", release);
    window.addEventListener("pointercancel", release);
    return () => {
      window.removeEventListener("pointerup", release);
      window.removeEventListener("pointercancel", release);
    };
  }, []);
  return { at, put, move, handlers: handlers.current };
}
