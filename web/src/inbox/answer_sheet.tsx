/** On a narrow screen: one question on the whole of it, its answers at the thumb, and then the next one. */

import { useEffect } from "react";
import { go, INBOX_ADDRESS, inboxAddress, NO_FILTER } from "../route.js";
import { Icon } from "../shell/icon.js";
import { useConnection } from "../socket/connection.js";
import { inOneLine } from "../text/unseen.js";
import { useOutcomes, type Outcome } from "./answers.js";
import { AskCard, Callout, Waits } from "./ask_card.js";
import { titleOf } from "./facts.js";
import { useSteady } from "./guard.js";
import { useInbox } from "./inbox_store.js";
import { askKey, sectionsOf, type OpenAsk } from "./sections.js";

export function AnswerSheet({ session }: { readonly session: string }) {
  const inbox = useInbox();
  const outcomes = useOutcomes();
  const isOnline = useConnection() === "open";
  const rows = sectionsOf(inbox.rows.values(), NO_FILTER).needsYou;
  const row = rows.find(({ id }) => id === session);
  const ask = row?.asks.find(({ id }) => !isOver(outcomes.get(askKey(row.id, id))));
  const one: OpenAsk | null = row && ask ? { key: askKey(row.id, ask.id), row, ask } : null;
  const last = [...outcomes.values()].filter(isOver).at(-1);
  const next = rows.find(({ id, asks }) => id !== session && asks.length);
  const isDone = inbox.isLoaded && !one;
  useEffect(() => {
    if (!isDone) return;
    // What is over is not in the way back.
    window.location.replace(next ? inboxAddress({}, next.id) : INBOX_ADDRESS);
  }, [isDone, next]);
  const isSteady = useSteady(one?.key ?? "");
  if (!one) return <main className="main" aria-busy="true" />;
  return (
    <main className="main sheet">
      <header className="bar">
        <button type="button" className="square large" aria-label="Back to the inbox" onClick={() => go(INBOX_ADDRESS)}>
          <Icon name="back" />
        </button>
        <div className="grow">
          <h1 className="clip">{titleOf(one.row)}</h1>
          <p className="tiny faint">
            {[one.row.agent || one.row.agentName, one.row.project.name]
              .filter(Boolean)
              .map((text) => inOneLine(text))
              .join(" · ")}{" "}
            · <Waits since_ms={one.ask.askedMs || one.row.stateSinceMs} />
          </p>
        </div>
        <span className="small faint num">
          {rows.indexOf(one.row) + 1} of {rows.length}
        </span>
      </header>
      <div className="scroll">
        {last && (
          <div role="status">
            <Callout tone={last.kind === "withdrawn" ? "" : "good"} icon={last.kind === "withdrawn" ? "stop" : "check"}>
              <b>{inOneLine(last.text, "code")}</b>
            </Callout>
          </div>
        )}
        <AskCard key={one.key} one={one} place="sheet" isAt isOnline={isOnline} isSteady={isSteady} outcome={outcomes.get(one.key)} />
      </div>
    </main>
  );
}

const isOver = (outcome: Outcome | undefined): boolean => !!outcome && outcome.kind !== "sending" && outcome.kind !== "refused";
