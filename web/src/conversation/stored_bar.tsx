/** Under a session that its agent has stored itself, and that can only be read here: what can be done with it. */

import { useEffect, useState } from "react";
import { api, type RequestFailed, type Session } from "../api.js";
import { continuingAddress, go, handOverAddress, sessionAddress } from "../route.js";
import { CopyButton } from "../shell/copy_button.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { useConversation } from "./context.js";

const WORDS: { readonly [activity: string]: string } = {
  running: "works on it now, in its own screen",
  waiting: "waits for an answer, in its own screen",
  idle: "has it open, in its own screen",
};

/** Sessions in histories of agents are called AGENT:ID, which no other session is. */
export const isOfHistory = (id: string): boolean => id.includes(":");

export function StoredBar({ isLive }: { readonly isLive: boolean }) {
  const { sessionId } = useConversation();
  const session = useStoredSession(sessionId, isLive);
  const [isKeeping, setKeeping] = useState(false);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  const keep = () => {
    setKeeping(true);
    setProblem(null);
    api.keep(sessionId).then(
      ({ id }) => go(sessionAddress(id)),
      (error: RequestFailed) => (setKeeping(false), setProblem(error)),
    );
  };
  const agent = inOneLine(session?.history ?? "") || "The agent";
  const activity = WORDS[session?.activity ?? ""];
  return (
    <div className="read-only stored-bar">
      <span>
        In {agent}’s own history: read here, never changed. {activity && `${agent} ${activity}.`}
      </span>
      <span className="stored-actions">
        {!activity && (
          <a className="button" href={continuingAddress(sessionId)}>
            <Icon name="steer" /> Continue here…
          </a>
        )}
        <a className="button" href={handOverAddress(sessionId)}>
          <Icon name="spawn" /> Hand over to…
        </a>
        <button type="button" className="button" disabled={isKeeping} onClick={keep} title="Copy it, so that it stays when the agent deletes it">
          <Icon name="copy" /> {isKeeping ? "Keeping…" : "Keep"}
        </button>
        <span className="small stored-command">
          <code>harness resume {sessionId}</code>
          <CopyButton text={`harness resume ${sessionId}`} label="Copy the command that continues it" />
        </span>
      </span>
      {problem && (
        <p className="bad small" role="alert">
          {problem.message} {problem.hint}
        </p>
      )}
    </div>
  );
}

/** Asked again when the session is opened or closed elsewhere. */
function useStoredSession(id: string, isLive: boolean): Session | null {
  const [session, setSession] = useState<Session | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    api.session(id, abort.signal).then(setSession, () => undefined);
    return () => abort.abort();
  }, [id, isLive]);
  return session;
}
