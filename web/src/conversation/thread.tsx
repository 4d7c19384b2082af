/** The messages and calls of a conversation. Only what is visible is drawn. */

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import type { HarnessMessage, HarnessState } from "../../client/src/index.js";
import { Icon } from "../shell/icon.js";
import { Placeholder } from "../shell/placeholder.js";
import { Revealed } from "../text/revealed.js";
import { FindBar } from "./find_bar.js";
import { FinishedAnswer } from "./finished_answer.js";
import { useFollowedEnd } from "./follow_end.js";
import { ItemList, type Item } from "./items.js";
import { Row, Working } from "./row.js";
import { errorToShow } from "./shown_error.js";
import { useTurnKeys } from "./turn_keys.js";

/** Drawn above and below what is in sight, so that scrolling shows no gaps. */
const BUFFER_PX = 600;

interface ThreadProps {
  readonly state: HarnessState;
  /** Of the conversation, or of a sub-agent that is shown as one. */
  readonly messages: readonly HarnessMessage[];
  readonly isFinding: boolean;
  readonly onFound: () => void;
}

export function Thread({ state, messages, isFinding, onFound }: ThreadProps) {
  const viewport = useRef<HTMLDivElement>(null);
  const column = useRef<HTMLDivElement>(null);
  const list = useRef<VirtualizerHandle>(null);
  const [made] = useState(() => new ItemList());
  const items = useMemo(() => made.of(messages, state.steering), [made, messages, state.steering]);
  const { isAtEnd, goToEnd, leave } = useFollowedEnd(viewport, column);
  const show = useCallback(
    (index: number, align: "start" | "center" = "center") => {
      leave();
      list.current?.scrollToIndex(index, { align });
    },
    [leave],
  );
  useTurnKeys(items, list, show);
  useOwnMessages(messages, goToEnd);
  return (
    <div className="thread">
      <FinishedAnswer messages={messages} />
      {isFinding && <FindBar items={items} column={column} onShow={show} onClose={onFound} />}
      <div ref={viewport} className="viewport" tabIndex={0} aria-label="Conversation" role="log" aria-live="off">
        <div ref={column} className="column">
          <Virtualizer ref={list} scrollRef={viewport} data={items} bufferSize={BUFFER_PX}>
            {drawn}
          </Virtualizer>
          <Foot state={state} messages={messages} />
        </div>
      </div>
      {!isAtEnd && (
        <button type="button" className="quiet round to-end" onClick={goToEnd} aria-label="Scroll to the end" title="Scroll to the end">
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}

const drawn = (item: Item) => (
  <div key={item.key} className="entry" data-kind={item.kind} data-key={item.key}>
    <Row item={item} />
  </div>
);

/** After everything: what there is to say about the whole. */
function Foot({ state, messages }: { state: HarnessState; messages: readonly HarnessMessage[] }) {
  const isWhole = messages === state.messages;
  const error = isWhole ? errorToShow(state) : null;
  const last = messages.at(-1);
  const isStarting = isWhole && state.status === "running" && last?.role === "user" && !state.steering.length;
  if (!messages.length && state.status !== "running")
    return <Placeholder title="No messages yet" text={state.capabilities.submit ? "Write the first message below." : "This conversation is empty."} />;
  return (
    <>
      {isStarting && <Working text="Starting…" />}
      {error && (
        <p className="notice" data-level="error" role="alert">
          <Icon name="warning" />
          <span>
            <Revealed text={error} kind="speech" />
          </span>
        </p>
      )}
    </>
  );
}

/** After a message was sent, the end is shown. */
function useOwnMessages(messages: readonly HarnessMessage[], goToEnd: () => void): void {
  const last = messages.findLast(({ role }) => role === "user")?.id ?? "";
  const before = useRef(last);
  useEffect(() => {
    if (before.current !== last) goToEnd();
    before.current = last;
  }, [last, goToEnd]);
}
