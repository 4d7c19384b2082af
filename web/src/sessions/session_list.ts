/** All conversations that the server knows, looked at again and again while the page is visible. */

import { useCallback, useEffect, useState } from "react";
import { api, type RequestFailed, type Session } from "../api.js";

const AGAIN_MS = 3_000;
const TYPING_PAUSE_MS = 180;
const PAGE_SIZE = 60;

export interface SessionList {
  readonly sessions: readonly Session[];
  readonly total: number;
  readonly isLoaded: boolean;
  readonly problem: RequestFailed | null;
  readonly query: string;
  /** What is listed was found for the query, and not for what was written before. */
  readonly isCurrent: boolean;
  readonly search: (query: string) => void;
  readonly showMore: () => void;
  readonly refresh: () => void;
}

export function useSessionList(): SessionList {
  const [query, setQuery] = useState("");
  const [limit, setLimit] = useState(PAGE_SIZE);
  const [round, setRound] = useState(0);
  const [found, setFound] = useState<{ sessions: readonly Session[]; total: number; query: string } | null>(null);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const look = () => {
      if (document.hidden) {
        timer = setTimeout(look, AGAIN_MS);
        return;
      }
      api
        .sessions(query, limit, abort.signal)
        .then(
          (page) => {
            setFound((before) =>
              before?.query === query && sameSessions(before.sessions, page.sessions) && before.total === page.total ? before : { ...page, query },
            );
            setProblem(null);
          },
          (error: RequestFailed) => !abort.signal.aborted && setProblem(error),
        )
        .finally(() => {
          if (!abort.signal.aborted) timer = setTimeout(look, AGAIN_MS);
        });
    };
    timer = setTimeout(look, query ? TYPING_PAUSE_MS : 0);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [query, limit, round]);
  const search = useCallback((words: string) => {
    setQuery(words);
    setLimit(PAGE_SIZE);
  }, []);
  const showMore = useCallback(() => setLimit((now) => now + PAGE_SIZE), []);
  const refresh = useCallback(() => setRound((now) => now + 1), []);
  return { sessions: found?.sessions ?? [], total: found?.total ?? 0, isLoaded: found !== null, problem, query, isCurrent: found?.query === query, search, showMore, refresh };
}

function sameSessions(before: readonly Session[], after: readonly Session[]): boolean {
  return JSON.stringify(before) === JSON.stringify(after);
}
