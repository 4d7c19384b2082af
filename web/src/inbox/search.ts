/** What the server finds for the words in the search field: in titles, messages, commands and paths. */

import { useEffect, useState } from "react";
import { api, type Passage, type RequestFailed, type Session } from "../api.js";
import type { InboxRow, InboxState } from "./row.js";
import { askedIn } from "./sections.js";

const TYPING_PAUSE_MS = 180;
const FOUND_MAX = 60;

export interface Found {
  readonly query: string;
  readonly rows: readonly InboxRow[];
  /** By session: where it has what is searched for. */
  readonly passages: ReadonlyMap<string, Passage>;
  readonly total: number;
}

export interface Search {
  /** Null: nothing is searched for, or nothing has come yet. */
  readonly found: Found | null;
  readonly problem: RequestFailed | null;
}

export function useSearch(query: string, known: ReadonlyMap<string, InboxRow>): Search {
  const [answer, setAnswer] = useState<{ query: string; sessions: readonly Session[]; total: number } | null>(null);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  const words = query.trim();
  useEffect(() => {
    setProblem(null);
    if (!words) {
      setAnswer(null);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      api.sessions({ ...askedIn(words), passages: "true" }, FOUND_MAX, abort.signal).then(
        ({ sessions, total }) => setAnswer({ query: words, sessions, total }),
        (error: RequestFailed) => !abort.signal.aborted && setProblem(error),
      );
    }, TYPING_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [words]);
  const found = answer && words ? foundIn(answer.query, answer.sessions, answer.total, known) : null;
  return { found, problem };
}

function foundIn(query: string, sessions: readonly Session[], total: number, known: ReadonlyMap<string, InboxRow>): Found {
  return {
    query,
    total,
    rows: sessions.map((session) => known.get(session.id) ?? asRow(session)),
    passages: new Map(sessions.flatMap(({ id, passage }) => (passage ? [[id, passage]] : []))),
  };
}

const FAILURES: ReadonlySet<string> = new Set(["failed", "timed_out", "stalled", "limit_exceeded", "agent_not_found", "spawn_failed"]);

function stateOf({ waits, isLive, outcome, activity }: Session): InboxState {
  if (waits) return "asks";
  if (isLive) return activity === "idle" ? "idle" : "running";
  if (FAILURES.has(outcome)) return "failed";
  return outcome === "interrupted" ? "interrupted" : outcome === "completed" ? "succeeded" : "idle";
}

/** A session that is too old to be in the inbox. */
function asRow(session: Session): InboxRow {
  const state = stateOf(session);
  return {
    id: session.id,
    title: session.title || session.prompt.trim().split("\n")[0] || "",
    agent: session.agent,
    agentName: session.agentName,
    model: session.model,
    cwd: session.cwd,
    project: { root: session.cwd, name: session.cwd.split("/").at(-1) ?? "" },
    branch: "",
    worktree: "",
    tags: session.tags,
    state,
    stateSinceMs: session.updatedMs,
    isLive: session.isLive,
    failure: state === "failed" ? { code: session.outcome, text: session.outcome === "failed" ? "" : session.outcome.replaceAll("_", " ") } : null,
    lastOperation: null,
    asks: [],
    children: [],
    context: null,
    changes: null,
    costUsd: session.costUsd,
    isCostComplete: true,
    tokens: null,
    queued: 0,
    startedMs: session.startedMs,
    updatedMs: session.updatedMs || session.startedMs,
    isUnseen: false,
    can: { submit: false, steer: false, answer: false, cancel: false },
    history: session.history,
  };
}
