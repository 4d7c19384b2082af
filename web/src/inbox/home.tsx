/** The inbox: what needs you, what runs, and what has ended. */

import { lazy, Suspense, useEffect, useMemo, useRef, useState, type KeyboardEvent, type RefObject } from "react";
import { cost } from "../amounts.js";
import { changesAddress, go, INBOX_ADDRESS, inboxAddress, sessionAddress, type InboxFilter } from "../route.js";
import { Icon } from "../shell/icon.js";
import { useKeys } from "../shell/keys.js";
import { useNarrow } from "../shell/media.js";
import { useConnection } from "../socket/connection.js";
import { useOutcomes } from "./answers.js";
import { AnswerSheet } from "./answer_sheet.js";
import { setTitle, useAlerts } from "./alerts.js";
import { useCards, useCursor } from "./cards.js";
import { Earlier, earlierGroups, useGroupedBy } from "./earlier.js";
import { useNow } from "./facts.js";
import { Filters } from "./filters.js";
import { useInbox, type Inbox } from "./inbox_store.js";
import { ConnectionNote, Loading, NothingFound, NothingNeedsYou } from "./list_states.js";
import { NeedsYou } from "./needs_you.js";
import type { RowAsk } from "./row.js";
import { Running } from "./running.js";
import { canAct, EarlierItem, type RowAction } from "./row_item.js";
import { useSearch, type Search } from "./search.js";
import { agentOf, alikeIn, choicesIn, isLimited, openAsks, projectOf, sectionsOf } from "./sections.js";
import { Summary } from "./summary.js";

const FirstPage = lazy(() => import("../start/first_page.js"));

interface HomeProps {
  readonly filter: InboxFilter;
  readonly answering: string;
  readonly searchField: RefObject<HTMLInputElement | null>;
}

const CLOCK_MS = 5_000;

export function Home({ filter, answering, searchField }: HomeProps) {
  const inbox = useInbox();
  const isNarrow = useNarrow();
  const [query, setQuery] = useState("");
  const search = useSearch(query, inbox.rows);
  const [asked, setAsked] = useState<RowAsk["kind"] | "">("");
  useEffect(() => setTitle("Inbox – Harness"), []);
  if (isNarrow && answering) return <AnswerSheet session={answering} />;
  return (
    <main className="main">
      <Bar inbox={inbox} query={query} onQuery={setQuery} searchField={searchField} isNarrow={isNarrow} filter={filter} />
      <div className="notes" aria-live="polite">
        <ConnectionNote />
      </div>
      <div className="scroll" role="group" aria-label="Inbox" tabIndex={-1}>
        <div className="home">
          {!inbox.isLoaded ? (
            <Loading />
          ) : query.trim() ? (
            <FoundList search={search} query={query} total={inbox.total} onClear={() => setQuery("")} />
          ) : (
            <Lists inbox={inbox} filter={filter} isNarrow={isNarrow} onAsked={setAsked} />
          )}
        </div>
      </div>
      <KeysLine asked={query.trim() ? "" : asked} />
    </main>
  );
}

interface BarProps {
  readonly inbox: Inbox;
  readonly query: string;
  readonly onQuery: (query: string) => void;
  readonly searchField: RefObject<HTMLInputElement | null>;
  readonly isNarrow: boolean;
  readonly filter: InboxFilter;
}

function Bar({ inbox, query, onQuery, searchField, isNarrow, filter }: BarProps) {
  const { needsYou, running } = inbox.counts;
  const [isSearching, setSearching] = useState(false);
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === "Escape") {
      onQuery("");
      setSearching(false);
      event.currentTarget.blur();
    } else if (event.key === "ArrowDown" || (event.key === "Enter" && !event.nativeEvent.isComposing && query)) {
      event.preventDefault();
      const first = document.querySelector<HTMLAnchorElement>(".found [data-stop]");
      if (event.key === "Enter") first?.click();
      else first?.focus();
    }
  };
  const field = (
    <label className="search">
      <Icon name="search" />
      <input
        ref={searchField}
        className="field"
        type="search"
        value={query}
        autoFocus={isSearching}
        aria-label="Search conversations and their contents"
        placeholder="Search all sessions"
        title="Also file:PATH, command:TEXT, commit:SHA, agent:NAME, project:FOLDER, model:NAME, since:7d"
        onChange={(event) => onQuery(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  );
  return (
    <header className="bar">
      {!(isNarrow && isSearching) && <h1>Inbox</h1>}
      {!isNarrow && (
        <span className="small faint">
          {[needsYou && `${needsYou} ${needsYou === 1 ? "needs" : "need"} you`, running && `${running} running`].filter(Boolean).join(" · ")}
        </span>
      )}
      {isNarrow && !isSearching && <span className="small faint num">{cost(inbox.today.costUsd, inbox.today.isCostComplete)} today</span>}
      <span className="push" />
      {(!isNarrow || isSearching) && field}
      {isNarrow && (
        <button
          type="button"
          className="square large"
          aria-label={isSearching ? "Close the search" : "Search"}
          onClick={() => (onQuery(""), setSearching(!isSearching))}
        >
          <Icon name={isSearching ? "close" : "search"} />
        </button>
      )}
      {isNarrow && (
        <a
          className="square large"
          aria-label={isLimited(filter) ? "Remove the filter" : "Only what needs you"}
          href={isLimited(filter) ? INBOX_ADDRESS : inboxAddress({ state: "needs-you" })}
          data-on={isLimited(filter) || undefined}
        >
          <Icon name="filter" />
        </a>
      )}
    </header>
  );
}

interface ListsProps {
  readonly inbox: Inbox;
  readonly filter: InboxFilter;
  readonly isNarrow: boolean;
  /** What is asked at the cursor; empty: nothing. */
  readonly onAsked: (kind: RowAsk["kind"] | "") => void;
}

function Lists({ inbox, filter, isNarrow, onAsked }: ListsProps) {
  const outcomes = useOutcomes();
  const now = useNow(CLOCK_MS);
  const isOnline = useConnection() === "open";
  const { isNotified } = useAlerts();
  const [by, toggleBy] = useGroupedBy();
  const [isAlikeOpen, setAlikeOpen] = useState(false);
  const [action, setAction] = useState<{ readonly id: string; readonly what: RowAction }>({ id: "", what: "" });
  const sections = useMemo(() => sectionsOf(inbox.rows.values(), filter), [inbox.rows, filter]);
  const cards = useCards(sections.needsYou, outcomes);
  const alike = useMemo(() => alikeIn(openAsks(sections.needsYou)), [sections.needsYou]);
  const groups = useMemo(() => earlierGroups(sections.earlier, by, now), [sections.earlier, by, dayStart(now)]);
  const stops = [...cards.list.map(({ key }) => key), ...sections.running.map(({ id }) => id), ...groups.flatMap(({ rows }) => rows.map(({ id }) => id))];
  const cursor = useCursor(stops);
  const asked = cards.list.find(({ key, isOver }) => key === cursor.at && !isOver)?.one.ask.kind ?? "";
  useEffect(() => onAsked(asked), [asked, onAsked]);
  useListKeys(inbox, cursor, { openAlike: () => alike.length > 0 && setAlikeOpen(true), act: (id, what) => setAction({ id, what }) });
  const choices = useMemo(() => ({ projects: choicesIn(inbox.rows.values(), projectOf), agents: choicesIn(inbox.rows.values(), agentOf) }), [inbox.rows]);
  const isEmpty = !cards.list.length && !sections.running.length && !sections.earlier.length;
  const isAll = !isLimited(filter);
  if (isEmpty && isAll && !inbox.total)
    return (
      <Suspense fallback={<Loading />}>
        <FirstPage />
      </Suspense>
    );
  return (
    <>
      <div className="list" {...cursor.handlers}>
        {!isNarrow && <Filters filter={filter} counts={inbox.counts} {...choices} />}
        {isAll && !cards.list.length && <NothingNeedsYou running={sections.running.length} isNotified={isNotified} />}
        {isEmpty && !isAll && <NothingFound query="" total={inbox.total} onClear={() => undefined} />}
        <NeedsYou
          cards={cards}
          count={isAll ? inbox.counts.needsYou : sections.needsYou.length}
          alike={alike}
          isAlikeOpen={isAlikeOpen}
          onAlike={setAlikeOpen}
          cursor={cursor}
          isOnline={isOnline}
          isNarrow={isNarrow}
          onReview={(session) => go(inboxAddress(filter, session))}
        />
        <Running rows={sections.running} cursorAt={cursor.at} now_ms={now} action={action} onActionDone={() => setAction({ id: "", what: "" })} />
        <Earlier
          groups={groups}
          by={by}
          onToggle={toggleBy}
          cursorAt={cursor.at}
          now_ms={now}
          moreCount={isAll ? inbox.total - inbox.rows.size : 0}
          loadedCount={inbox.rows.size}
        />
      </div>
      <Summary inbox={inbox} />
    </>
  );
}

const dayStart = (now_ms: number): number => new Date(now_ms).setHours(0, 0, 0, 0);

interface ListActs {
  readonly openAlike: () => void;
  readonly act: (id: string, what: RowAction) => void;
}

function useListKeys(inbox: Inbox, cursor: ReturnType<typeof useCursor>, acts: ListActs): void {
  const latest = useRef(inbox);
  latest.current = inbox;
  const rowAt = () => {
    const stop = document.activeElement?.closest<HTMLElement>("[data-stop]")?.dataset["stop"];
    return stop ? latest.current.rows.get(stop.split(" ")[0]!) : undefined;
  };
  const act = (what: RowAction) => {
    const row = rowAt();
    if (!row || !canAct(row, what)) return false;
    acts.act(row.id, what);
    return undefined;
  };
  useKeys({
    j: () => cursor.move(1),
    k: () => cursor.move(-1),
    ArrowDown: (event) => ((event.target as Element).closest?.("[data-stop]") ? cursor.move(1) : false),
    ArrowUp: (event) => ((event.target as Element).closest?.("[data-stop]") ? cursor.move(-1) : false),
    Y: (event) => (event.repeat ? false : acts.openAlike()),
    s: () => act("steer"),
    x: () => act("stop"),
    d: () => {
      const row = rowAt();
      return row ? go(changesAddress(row.id)) : false;
    },
    Enter: (event) => {
      const row = (event.target as HTMLElement).dataset?.["stop"] ? rowAt() : undefined;
      return row && !(event.target instanceof HTMLAnchorElement) ? go(sessionAddress(row.id)) : false;
    },
  });
}

function FoundList({
  search,
  query,
  total,
  onClear,
}: {
  readonly search: Search;
  readonly query: string;
  readonly total: number;
  readonly onClear: () => void;
}) {
  const { found, problem } = search;
  const rows = found?.rows ?? [];
  const cursor = useCursor(rows.map(({ id }) => id));
  useKeys({
    j: () => cursor.move(1),
    k: () => cursor.move(-1),
    ArrowDown: () => cursor.move(1),
    ArrowUp: () => (cursor.at === rows[0]?.id ? document.querySelector<HTMLElement>(".search input")?.focus() : cursor.move(-1)),
  });
  if (problem)
    return (
      <p className="callout bad" role="alert">
        <span>
          <b>{problem.message}</b> {problem.hint}
        </span>
      </p>
    );
  if (!found) return <Loading />;
  if (!rows.length) return <NothingFound query={query.trim()} total={total} onClear={onClear} />;
  return (
    <section className="list found" aria-label="Found" {...cursor.handlers}>
      <h2 className="section">
        Found <span className="count">{found.total.toLocaleString("en")}</span>
        {found.total > rows.length && <span className="faint small">the newest {rows.length}</span>}
      </h2>
      <div className="table">
        {rows.map((row) => (
          <EarlierItem key={row.id} row={row} isAt={cursor.at === row.id} now_ms={Date.now()} passage={found.passages.get(row.id) ?? null} />
        ))}
      </div>
    </section>
  );
}

type KeyHints = readonly (readonly [string, string])[];

const ANSWER_KEYS: { readonly [Kind in RowAsk["kind"] | ""]: KeyHints } = {
  permission: [
    ["y", "allow once"],
    ["a", "always…"],
    ["n", "deny…"],
  ],
  plan: [
    ["y", "start"],
    ["n", "another plan…"],
  ],
  question: [["1 – 9", "choose"]],
  tool: [["1 – 9", "choose"]],
  "": [],
};
const MOVE_KEYS: KeyHints = [
  ["j k", "move"],
  ["↵", "open"],
];
const OTHER_KEYS: KeyHints = [
  ["d", "diff"],
  ["s", "steer"],
  ["x", "stop"],
  ["c", "new"],
  ["/", "search"],
  ["?", "all keys"],
];

/** The keys that work now: those that answer are those of the question at the cursor. */
function KeysLine({ asked }: { readonly asked: RowAsk["kind"] | "" }) {
  return (
    <footer className="keys-line">
      {[...MOVE_KEYS, ...ANSWER_KEYS[asked], ...OTHER_KEYS].map(([keys, what]) => (
        <span key={what}>
          {(keys.includes("–") ? [keys] : keys.split(" ")).map((key) => (
            <kbd key={key}>{key}</kbd>
          ))}{" "}
          {what}
        </span>
      ))}
    </footer>
  );
}
