/** Instead of a list, or above it: loading, nothing there, nothing found, not connected, connected again. */

import { useEffect, useRef, useState, type ReactNode } from "react";
import { clockTime, roughly } from "../amounts.js";
import { INBOX_ADDRESS } from "../route.js";
import { Icon } from "../shell/icon.js";
import { pageSocket } from "../socket/socket.js";
import { useConnection } from "../socket/connection.js";
import { Callout } from "./ask_card.js";
import { useNow } from "./facts.js";

const LOADING_AFTER_MS = 300;

export function Loading() {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), LOADING_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!isShown) return null;
  return (
    <div className="table loading" role="status">
      {[48, 36, 54].map((width) => (
        <div key={width} className="row">
          <i className="skeleton skeleton-sign" />
          <i className="skeleton" style={{ width: `${width}%` }} />
          <i className="skeleton skeleton-fact push" />
        </div>
      ))}
      <span className="unseen">Loading</span>
    </div>
  );
}

function Empty({
  icon,
  title,
  text,
  children,
}: {
  readonly icon?: "check" | "inbox";
  readonly title: string;
  readonly text: string;
  readonly children?: ReactNode;
}) {
  return (
    <div className="table empty" role="status">
      {icon && (
        <p className={icon === "check" ? "good" : "faint"}>
          <Icon name={icon} />
        </p>
      )}
      <p className="empty-title">{title}</p>
      <p className="small faint">{text}</p>
      {children}
    </div>
  );
}

export function NothingNeedsYou({ running, isNotified }: { readonly running: number; readonly isNotified: boolean }) {
  const what = running === 0 ? "Nothing is running." : running === 1 ? "One is running." : `${running} are running.`;
  return <Empty icon="check" title="Nothing needs you" text={`${what}${running && isNotified ? " You get a notification when one asks." : ""}`} />;
}

export function NothingFound({ query, total, onClear }: { readonly query: string; readonly total: number; readonly onClear: () => void }) {
  const looked = total === 1 ? "one conversation" : `${total.toLocaleString("en")} conversations`;
  return (
    <Empty
      title={query ? `Nothing found for “${query}”` : "Nothing passes the filters"}
      text={query ? `Looked at titles, messages, commands and paths of ${looked}.` : `There are ${looked}.`}
    >
      <p>
        <a className="button small" href={INBOX_ADDRESS} onClick={onClear}>
          Clear {query ? "search" : "filters"}
        </a>
      </p>
    </Empty>
  );
}

const GONE_MS = 20_000;
const BACK_SHOWN_MS = 5_000;

/** Above everything while there is no connection, and for a moment when it is back. */
export function ConnectionNote() {
  const status = useConnection();
  const now = useNow(1_000);
  const wasLost = useRef(false);
  const [isBack, setBack] = useState(false);
  const socket = pageSocket();
  const isLost = socket.hasOpened && (status === "waiting" || status === "connecting");
  useEffect(() => {
    if (isLost) wasLost.current = true;
    else if (status === "open" && wasLost.current) {
      wasLost.current = false;
      setBack(true);
      const timer = setTimeout(() => setBack(false), BACK_SHOWN_MS);
      return () => clearTimeout(timer);
    }
    return undefined;
  }, [isLost, status]);
  if (status === "closed")
    return (
      <Callout tone="bad" icon="warning" isAlert>
        <b>The server closed the connection.</b> {socket.closeReason} Reload the page to try again.
      </Callout>
    );
  if (!socket.hasOpened && status === "waiting")
    return (
      <Callout tone="bad" icon="warning" isAlert>
        <b>The server cannot be reached.</b> Is <code>harness serve</code> still running? This page then continues by itself.
      </Callout>
    );
  if (isLost && socket.lostSinceMs) {
    const elapsed = now - socket.lostSinceMs;
    return (
      <Callout tone={elapsed > GONE_MS ? "bad" : "warn"} icon="offline" isAlert>
        <b>Not connected for {roughly(elapsed)}.</b> What you see is from {clockTime(socket.heardMs)}. Agents continue while the server runs; one that was stopped has stopped them. Answers are off until it
        is back; what you write stays as a draft.{" "}
        <button type="button" className="button small" onClick={socket.reconnectNow}>
          Try now
        </button>
      </Callout>
    );
  }
  if (!isBack) return null;
  return (
    <Callout tone="good" icon="check">
      <b>Connected again.</b> All that happened meanwhile is here.
    </Callout>
  );
}
