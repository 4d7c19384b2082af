/** Who needs you, for what, since when; answered right here. */

import { useRef, useState } from "react";
import { AlikeBar, AlikeCard } from "./alike.js";
import { AskCard } from "./ask_card.js";
import { AskLine, OutcomeLine } from "./ask_line.js";
import type { Card, Cards, Cursor } from "./cards.js";
import { useSteadyCards } from "./guard.js";
import type { OpenAsk } from "./sections.js";

interface NeedsYouProps {
  readonly cards: Cards;
  readonly count: number;
  readonly alike: readonly (readonly OpenAsk[])[];
  readonly isAlikeOpen: boolean;
  readonly onAlike: (isOpen: boolean) => void;
  readonly cursor: Cursor;
  readonly isOnline: boolean;
  readonly isNarrow: boolean;
  readonly onReview: (session: string) => void;
}

/** So many have a card each; more have a line each, and the one at the cursor a card. */
const CARDS_MAX = 4;
const NARROW_FIRST = 3;

export function NeedsYou(props: NeedsYouProps) {
  const { cards, count, alike, isAlikeOpen, onAlike, cursor, isOnline, isNarrow } = props;
  const list = useRef<HTMLElement>(null);
  const isSteady = useSteadyCards(list);
  const [isAll, setAll] = useState(false);
  const [denied, setDenied] = useState("");
  if (!cards.list.length) return null;
  const isLimited = isNarrow && !isAll && cards.list.length > NARROW_FIRST;
  const shown = isLimited ? cards.list.slice(0, NARROW_FIRST) : cards.list;
  const isThin = !isNarrow && cards.list.length > CARDS_MAX;
  const [same] = alike;
  return (
    <section ref={list} className="needs-you" aria-label="Needs you" {...cards.held}>
      <h2 className="section">
        Needs you <span className="count hot">{count}</span>
        <span className="faint small wide-only">longest wait first</span>
      </h2>
      {same &&
        (isAlikeOpen ? (
          <AlikeCard asks={same} isOff={!isOnline} onBack={() => onAlike(false)} />
        ) : (
          <AlikeBar asks={same} isOff={!isOnline} onOpen={() => onAlike(true)} />
        ))}
      {shown.map((card) => (
        <OneCard
          key={card.key}
          {...props}
          card={card}
          isThin={isThin}
          isSteady={() => isSteady(card.key)}
          opensDenying={denied === card.key}
          onOpen={() => (setDenied(card.one.ask.kind === "permission" && !card.one.ask.preview?.length ? card.key : ""), cursor.put(card.key))}
        />
      ))}
      {isLimited && (
        <button type="button" className="button wide more-asks" onClick={() => setAll(true)}>
          {cards.list.length - NARROW_FIRST === 1 ? "1 more needs you" : `${cards.list.length - NARROW_FIRST} more need you`}
        </button>
      )}
    </section>
  );
}

interface OneCardProps extends NeedsYouProps {
  readonly card: Card;
  readonly isThin: boolean;
  readonly isSteady: () => boolean;
  readonly opensDenying: boolean;
  readonly onOpen: () => void;
}

function OneCard({ card, cursor, isAlikeOpen, alike, isThin, isOnline, isNarrow, isSteady, opensDenying, onOpen, onReview }: OneCardProps) {
  // While similar questions are answered together, they alone have a filled button and keys.
  const isAt = cursor.at === card.key && !(isAlikeOpen && alike.length > 0);
  const tabIndex = isAt ? 0 : -1;
  if (card.isOver) return <OutcomeLine outcome={card.outcome!} tabIndex={tabIndex} />;
  if (isThin && !isAt) return <AskLine one={card.one} isOnline={isOnline} isSteady={isSteady} outcome={card.outcome} tabIndex={tabIndex} onOpen={onOpen} />;
  return (
    <AskCard
      one={card.one}
      place="inbox"
      isAt={isAt}
      isOnline={isOnline}
      isSteady={isSteady}
      outcome={card.outcome}
      position={card.position}
      tabIndex={tabIndex}
      opensDenying={opensDenying}
      onReview={isNarrow ? () => onReview(card.one.row.id) : undefined}
    />
  );
}
