/** What waits for a person, above the place to write: the same card as in the inbox, never out of sight. */

import { useLayoutEffect, useMemo, useRef } from "react";
import { useOutcomes } from "../inbox/answers.js";
import { AskCard } from "../inbox/ask_card.js";
import { OutcomeLine } from "../inbox/ask_line.js";
import { useCards } from "../inbox/cards.js";
import { useSteadyCards } from "../inbox/guard.js";
import { useInboxRow } from "../inbox/inbox_store.js";
import { useConnection } from "../socket/connection.js";

export function RelayDock({ sessionId }: { sessionId: string }) {
  const row = useInboxRow(sessionId);
  const all = useOutcomes();
  const outcomes = useMemo(() => new Map([...all].filter(([, outcome]) => outcome.row.id === sessionId)), [all, sessionId]);
  const cards = useCards(row ? [row] : [], outcomes);
  const list = useRef<HTMLElement>(null);
  const isSteady = useSteadyCards(list);
  const isOnline = useConnection() === "open";
  const focus = useFocusBack(cards.list.map(({ key, isOver }) => `${key} ${isOver}`).join("\n"));
  if (!cards.list.length) return null;
  return (
    <section ref={list} className="dock" aria-label="Needs you" {...cards.held} {...focus}>
      {cards.list.map((card) =>
        card.isOver ? (
          <OutcomeLine key={card.key} outcome={card.outcome!} tabIndex={-1} />
        ) : (
          <AskCard
            key={card.key}
            one={card.one}
            place="conversation"
            isAt
            isOnline={isOnline}
            isSteady={() => isSteady(card.key)}
            outcome={card.outcome}
            position={card.position}
            tabIndex={0}
          />
        ),
      )}
    </section>
  );
}

/** A card that was answered goes away, and the focus with it: then it is back where one writes. */
function useFocusBack(shown: string) {
  const isInside = useRef(false);
  useLayoutEffect(() => {
    if (!isInside.current || document.activeElement !== document.body) return;
    isInside.current = false;
    document.querySelector<HTMLElement>(".composer-input")?.focus();
  }, [shown]);
  return {
    onFocusCapture: () => (isInside.current = true),
    onBlurCapture: () => (isInside.current = false),
  };
}
