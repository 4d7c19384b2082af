/**
 * A question that waits for a person, in one order: what, where, why, then the answers.
 *
 * Its keys work only while the focus is on it and outside of fields, never while a key is held down, and not before it
 * has been where it is for a moment (`isSteady`).
 */

import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import type { JSONValue } from "../../client/src/index.js";
import { changesAddress, go, sessionAddress } from "../route.js";
import { roughly } from "../amounts.js";
import { api } from "../api.js";
import { Icon } from "../shell/icon.js";
import { isWriting } from "../shell/keys.js";
import { inOneLine } from "../text/unseen.js";
import { AgentBadge } from "./agent_badge.js";
import { AlwaysButton } from "./always_button.js";
import { sharedAnswers, type Answer, type Outcome } from "./answers.js";
import { AskSubject, ChangeCounts, FurtherCalls, isCommand, MarkedText, MoreArguments } from "./ask_subject.js";
import { DenyForm } from "./deny_form.js";
import { ContextUsed, Cost, shortPath, titleOf, useNow, whereOf } from "./facts.js";
import { LimitFacts } from "./limit_facts.js";
import { PlanForm, planTitle } from "./plan_form.js";
import { limitOf, payloadText } from "./question.js";
import { isSimple, QuestionForm } from "./question_form.js";
import { ReadingContext, useReading } from "./reading.js";
import { isMarked, type AskOption, type RowAsk } from "./row.js";
import { StateSign } from "./row_state.js";
import type { OpenAsk } from "./sections.js";

export interface AskCardProps {
  readonly one: OpenAsk;
  /** In the inbox the conversation is the title; in the conversation, and on a whole screen, the question is. */
  readonly place: "inbox" | "conversation" | "sheet";
  /** The cursor is on it: only then it has a filled button, and keys. */
  readonly isAt: boolean;
  readonly isOnline: boolean;
  readonly isSteady: () => boolean;
  readonly outcome?: Outcome | undefined;
  /** Which of several of the same conversation: “1 of 2”. */
  readonly position?: string;
  readonly tabIndex?: number;
  /** It was pressed to be denied while it was a line. */
  readonly opensDenying?: boolean;
  /** On a narrow screen: what needs more room is answered on a screen of its own. */
  readonly onReview?: (() => void) | undefined;
}

export function AskCard(props: AskCardProps) {
  const { one, place, isAt, isSteady, outcome, tabIndex } = props;
  const { row } = one;
  const ask = useWholeAsk(one, isAt || place !== "inbox");
  const reading = useReading();
  const isRead = reading.isRead && !ask.isCut;
  const id = useId();
  const [isDenying, setDenying] = useState(props.opensDenying ?? false);
  const [isConfirming, setConfirming] = useState(false);
  const [isOpen, setOpen] = useState<boolean | null>(null);
  const card = useRef<HTMLElement>(null);
  const isOff = !props.isOnline || !row.can.answer || outcome?.kind === "sending";
  const isHiding = isMarked(ask);
  const answer = (given: Answer) => {
    if (isOff || !isSteady()) return;
    setDenying(false);
    card.current?.focus({ preventScroll: true }); // the button that was pressed goes away
    sharedAnswers().answer(one, given);
  };
  const isDiffOpen = isOpen ?? (place !== "inbox" || isAt || isShortDiff(ask));
  const read = () => {
    const box = card.current?.querySelector<HTMLElement>(".tall:not([data-open]) .tall-box[tabindex]");
    box?.focus();
    box?.scrollBy({ top: box.clientHeight * 0.9 });
    if (!isDiffOpen) setOpen(true);
  };
  const options = optionsOf(ask);
  const acts: Acts = {
    allow: () => {
      if (!isRead) read();
      else if (isHiding && !isConfirming) setConfirming(true);
      else answer({ kind: "approve", option: options.once });
    },
    always: (option) => (isRead ? answer({ kind: "approve", option }) : read()),
    deny: () => setDenying(true),
    toggleDiff: () => setOpen(!isDiffOpen),
  };
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
    const act = keyAct(event, props, acts, options, isHiding, isDenying);
    if (!act) return;
    event.preventDefault();
    if (!event.repeat && isSteady()) act();
  };
  return (
    <article
      ref={card}
      className={isAt ? "ask at" : "ask"}
      aria-labelledby={id}
      data-key={one.key}
      data-stop={one.key}
      tabIndex={tabIndex}
      onKeyDown={onKeyDown}
    >
      <Head {...props} id={id} isDenying={isDenying} />
      <ReadingContext value={reading.note}>
      <div className="ask-body">
        {outcome?.kind === "refused" && <Trouble text={outcome.text} />}
        {isDenying ? (
          <>
            <AskSubject ask={ask} isWhole={false} cwd={row.cwd} />
            <DenyForm
              draftKey={one.key}
              isOff={isOff}
              canStop={row.can.cancel}
              onDeny={(reason, stops) => answer({ kind: "deny", reason, stops })}
              onBack={() => (setDenying(false), card.current?.focus())}
            />
          </>
        ) : (
          <Body
            {...props}
            one={{ ...one, ask }}
            isOff={isOff}
            isRead={isRead}
            isDiffOpen={isDiffOpen}
            isConfirming={isConfirming}
            acts={acts}
            options={options}
            onAnswer={answer}
          />
        )}
      </div>
      </ReadingContext>
    </article>
  );
}

/** What is asked, with all of it once it was wanted: a row has only the beginning of what is very long. */
function useWholeAsk({ row, ask }: OpenAsk, isWanted: boolean): RowAsk {
  const [whole, setWhole] = useState<RowAsk | null>(null);
  const isMissing = ask.isCut && isWanted && whole?.argumentsHash !== ask.argumentsHash;
  useEffect(() => {
    if (!isMissing) return undefined;
    const control = new AbortController();
    api.wholeAsk(row.id, ask.id, control.signal).then(setWhole, () => undefined);
    return () => control.abort();
  }, [isMissing, row.id, ask.id, ask.argumentsHash]);
  return whole?.argumentsHash === ask.argumentsHash && ask.isCut ? whole : ask;
}

const SHORT_DIFF = 16;

function isShortDiff({ preview }: RowAsk): boolean {
  return (preview ?? []).reduce((sum, { diff }) => sum + diff.split("\n").length, 0) <= SHORT_DIFF;
}

interface Acts {
  readonly allow: () => void;
  readonly always: (option: AskOption) => void;
  readonly deny: () => void;
  readonly toggleDiff: () => void;
}

interface Options {
  readonly once: AskOption | null;
  readonly always: readonly AskOption[];
}

function optionsOf({ options }: RowAsk): Options {
  const offered: readonly (string | AskOption)[] = options ?? [];
  const known = offered.filter((option): option is AskOption => typeof option === "object" && option !== null);
  return { once: known.find(({ kind }) => kind === "allow-once") ?? null, always: known.filter(({ kind }) => kind === "allow-always") };
}

function keyAct(
  event: KeyboardEvent<HTMLElement>,
  { one, onReview }: AskCardProps,
  acts: Acts,
  options: Options,
  isHiding: boolean,
  isDenying: boolean,
): (() => void) | null {
  const { row, ask } = one;
  const press = (name: string) => () => event.currentTarget.querySelector<HTMLButtonElement>(`[data-act="${name}"]:not(:disabled)`)?.click();
  if (event.key === "Enter" && event.target === event.currentTarget) return onReview ?? (() => go(sessionAddress(row.id)));
  if (isDenying) return null;
  if (ask.kind === "permission") {
    if (event.key === "y" && !isHiding) return acts.allow;
    if (event.key === "a" && !isHiding && options.always[0]) return () => acts.always(options.always[0]!);
    if (event.key === "n") return acts.deny;
    if (event.key === "d") return ask.preview?.length ? acts.toggleDiff : () => go(changesAddress(row.id));
  }
  if (ask.kind === "plan" && (event.key === "y" || event.key === "n")) return press(event.key === "y" ? "allow" : "deny");
  if (!/^[1-9]$/.test(event.key) || ask.kind === "permission" || ask.kind === "plan") return null;
  const choices = event.currentTarget.querySelectorAll<HTMLElement>(".choice, .option input");
  return () => choices[Number(event.key) - 1]?.click();
}

function Head({ one: { row, ask }, place, position, isOnline, id, isDenying }: AskCardProps & { readonly id: string; readonly isDenying: boolean }) {
  const isInbox = place === "inbox";
  const Heading = isInbox ? "h3" : "h2";
  return (
    <div className="ask-head">
      <StateSign state={row.state} />
      <AgentBadge agentName={row.agentName} title={row.agent} />
      <Heading className="ask-title" id={id}>
        {isDenying ? (
          `Deny: ${inOneLine(ask.title)}`
        ) : isInbox ? (
          <a href={sessionAddress(row.id)} tabIndex={-1}>
            {titleOf(row)}
          </a>
        ) : (
          <AskTitle ask={ask} />
        )}
      </Heading>
      {isInbox && <span className="small faint clip ask-where">{whereOf(row)}</span>}
      <span className="ask-facts">
        {isInbox && (
          <span className="narrow-only row">
            <AgentBadge agentName={row.agentName} title={row.agent} /> {inOneLine(row.project.name, "code")}
          </span>
        )}
        {!isInbox && <span className="ask-where">{whereOf(row)}</span>}
        {position && <span>{position}</span>}
        {isOnline ? <Waits since_ms={ask.askedMs || row.stateSinceMs} /> : <span className="bad">not connected</span>}
        {isInbox && <Cost row={row} />}
        {isInbox && <ContextUsed row={row} />}
      </span>
    </div>
  );
}

export function Waits({ since_ms }: { readonly since_ms: number }) {
  const now = useNow(1_000);
  return <span className="wait num">waits {roughly(now - since_ms)}</span>;
}

/** “Overwrite `app/rates.py`?” */
function AskTitle({ ask }: { readonly ask: RowAsk }) {
  if (ask.kind === "plan") return planTitle(ask);
  if (ask.kind !== "permission") return inOneLine(questionOf(ask)) || "The agent asks";
  const { verb, subject } = verbAndSubject(ask);
  return (
    <>
      {`${verb.charAt(0).toUpperCase()}${verb.slice(1)}`}
      {subject && (
        <>
          {" "}
          <code>{inOneLine(subject, "code")}</code>
        </>
      )}
      ?
    </>
  );
}

export function questionOf(ask: RowAsk): string {
  return ask.question || payloadText(ask, "question") || ask.subject || `${ask.toolName || "The agent"} waits for an answer`;
}

function verbAndSubject({ title, subject }: RowAsk): { readonly verb: string; readonly subject: string } {
  const words = title || "continue";
  if (!subject || !words.endsWith(subject)) return { verb: words, subject: "" };
  return { verb: words.slice(0, words.length - subject.length).trim(), subject };
}

/** Markdown in one line of plain text: only the signs around bold words and code go. */
function withoutEmphasis(text: string): string {
  return text.replace(/(\*\*|__|`+)(\S|\S.*?\S)\1/g, "$2");
}

interface BodyProps extends AskCardProps {
  readonly isOff: boolean;
  /** All of it was on the screen. */
  readonly isRead: boolean;
  readonly isDiffOpen: boolean;
  readonly isConfirming: boolean;
  readonly acts: Acts;
  readonly options: Options;
  readonly onAnswer: (answer: Answer) => void;
}

function Body(props: BodyProps) {
  const { one, place, isAt, isOff, onAnswer, onReview } = props;
  const { ask } = one;
  const answer = (value: JSONValue, words: string) => onAnswer({ kind: "answer", value, words });
  const limit = limitOf(ask);
  if (ask.kind === "permission") return <Permission {...props} />;
  if (ask.kind === "plan")
    return (
      <>
        {place === "inbox" && <p className="ask-what">{planTitle(ask)}</p>}
        {onReview ? <ReviewButton onReview={onReview} isAt={isAt} /> : <PlanForm ask={ask} draftKey={one.key} isOff={isOff} isAt={isAt} onAnswer={answer} />}
      </>
    );
  return (
    <>
      {place === "inbox" && (
        <p className="ask-what">
          <b>{ask.runName ? `${inOneLine(ask.runName)} asks:` : "Asks:"}</b> {inOneLine(questionOf(ask))}
        </p>
      )}
      {limit && <LimitFacts limit={limit} />}
      {ask.kind === "tool" && <AskSubject ask={ask} isWhole cwd={one.row.cwd} />}
      {onReview && !isSimple(ask) ? (
        <ReviewButton onReview={onReview} isAt={isAt} />
      ) : (
        <QuestionForm ask={ask} draftKey={one.key} isOff={isOff} isLarge={place === "sheet"} onAnswer={answer} />
      )}
    </>
  );
}

function Permission(props: BodyProps) {
  const { one, place, isDiffOpen, onReview, isAt } = props;
  const { row, ask } = one;
  const { verb, subject } = verbAndSubject(ask);
  const isLong = place !== "inbox" || isAt || isMarked(ask) || ask.more.length > 0 || ask.isCut || ask.further.length > 0 || (!!ask.cwd && ask.cwd !== row.cwd) || ask.subject.length > 90 || ask.subject.includes("\n") || ask.subject.startsWith("{");
  const isInline = !isLong && !subject && !!ask.subject;
  const isElsewhere = !!onReview && (!!ask.preview?.length || ask.further.length > 0 || ask.isCut);
  const who = ask.runName ? `${inOneLine(ask.runName)} asks to` : "Asks to";
  return (
    <>
      <p className="ask-what">
        {place === "inbox" ? (
          <>
            {who} <b>{inOneLine(verb)}</b> {subject && <code>{inOneLine(subject, "code")}</code>}
            {isInline && (
              <code className="ask-inline">
                <MarkedText text={ask.subject} marks={ask.marks} />
              </code>
            )}
          </>
        ) : (
          ask.runName && `${inOneLine(ask.runName)} asks · `
        )}
        {isCommand(ask) && isLong && (ask.cwd || row.cwd) && (
          <>
            {" "}
            in <code>{inOneLine(shortPath(ask.cwd || row.cwd), "code")}</code>
          </>
        )}
        {ask.preview?.length ? <ChangeCounts files={ask.preview} /> : null}
      </p>
      {!isInline && !isElsewhere && <AskSubject ask={ask} isWhole={isDiffOpen} cwd={row.cwd} />}
      {ask.more.length > 0 && !isElsewhere && <MoreArguments more={ask.more} />}
      {!isElsewhere && <FurtherCalls ask={ask} isWhole={isDiffOpen} cwd={row.cwd} />}
      {isMarked(ask) && <HiddenNote ask={ask} />}
      {ask.reason && <p className="ask-reason">Asked because: {inOneLine(ask.reason)}</p>}
      {ask.why && isLong && <p className="ask-why">“{inOneLine(withoutEmphasis(ask.why))}”</p>}
      {isElsewhere ? <ReviewButton onReview={onReview} isAt={isAt} /> : <Buttons {...props} />}
    </>
  );
}

function Buttons(props: BodyProps) {
  const { one, place, isAt, isOff, isRead, isOnline, isDiffOpen, isConfirming, acts, options } = props;
  const { ask, row } = one;
  const isHiding = isMarked(ask);
  const deny = (
    <button key="deny" type="button" className={isHiding && isAt ? "button primary" : "button"} disabled={isOff} onClick={acts.deny}>
      Deny… {isAt && <kbd>n</kbd>}
    </button>
  );
  const allow = (
    <button
      key="allow"
      type="button"
      className={isAt && !isHiding ? "button primary" : isConfirming ? "button stop" : "button"}
      disabled={isOff || !isRead}
      onClick={acts.allow}
    >
      {!isHiding ? "Allow once" : isConfirming ? "Allow once, as it is shown" : "Allow once…"} {isAt && isRead && !isHiding && <kbd>y</kbd>}
    </button>
  );
  const note = !isOnline
    ? "Your answer is sent only while you are connected: it is never stored for later."
    : !row.can.answer
      ? "It can be answered only where it runs."
      : !isRead
        ? "It can be allowed when all of it was shown: scroll to the end, or show all."
      : isHiding
        ? "confirm once more · no key, no “always”"
        : ask.noAlwaysWhy && isAt
          ? `No “always”: ${inOneLine(ask.noAlwaysWhy)}`
          : "";
  return (
    <div className="ask-buttons">
      {place === "inbox" && ask.preview?.length ? (
        <button type="button" className="button" aria-expanded={isDiffOpen} onClick={acts.toggleDiff}>
          <Icon name="diff" isSmall /> {isDiffOpen ? "Hide diff" : "Show diff"} {isAt && <kbd>d</kbd>}
        </button>
      ) : null}
      {isHiding ? [deny, allow] : allow}
      {!isHiding && <AlwaysButton options={options.always} cwd={row.cwd} isOff={isOff || !isRead} hasKey={isAt && isRead} onChoose={acts.always} />}
      {!isHiding && deny}
      {note && <span className="note-text">{note}</span>}
      <OpenLink {...props} />
    </div>
  );
}

function OpenLink({ one: { row }, place, isAt }: AskCardProps) {
  if (place !== "inbox" || !isAt) return null;
  return (
    <a className="quiet push open-link" href={sessionAddress(row.id)}>
      <Icon name="open" isSmall /> Open <kbd>↵</kbd>
    </a>
  );
}

function ReviewButton({ onReview, isAt }: { readonly onReview: () => void; readonly isAt: boolean }) {
  return (
    <div className="ask-buttons">
      <button type="button" className={isAt ? "button primary" : "button"} onClick={onReview}>
        Review and answer
      </button>
    </div>
  );
}

function HiddenNote({ ask }: { readonly ask: RowAsk }) {
  const count = [ask, ...ask.further].reduce((sum, { marks }) => sum + marks.length, 0);
  return (
    <Callout tone="bad" icon="warning">
      <b>This hides part of itself.</b> {count === 1 ? "One place cannot be seen or imitates" : `${count} places cannot be seen or imitate`} something else. All
      of it is shown here in the order in which it would run.
    </Callout>
  );
}

function Trouble({ text }: { readonly text: string }) {
  return (
    <Callout tone="warn" icon="warning" isAlert>
      <b>{inOneLine(text)}</b>
    </Callout>
  );
}

export function Callout({
  tone,
  icon,
  isAlert = false,
  children,
}: {
  readonly tone: "" | "good" | "warn" | "bad";
  readonly icon: Parameters<typeof Icon>[0]["name"];
  readonly isAlert?: boolean;
  readonly children: ReactNode;
}) {
  return (
    <div className={`callout ${tone}`} role={isAlert ? "alert" : undefined}>
      <Icon name={icon} />
      <span>{children}</span>
    </div>
  );
}
