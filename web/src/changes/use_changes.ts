/** The list of changes, loaded again when the conversation has changed something or the page is looked at again. */

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { HarnessState } from "../../client/src/index.js";
import { RequestFailed } from "../api.js";
import { changesApi, type ChangeList } from "./changes_api.js";

export interface LoadedChanges {
  readonly list: ChangeList | null;
  readonly problem: string;
  readonly reload: () => void;
}

const PAUSE_MS = 400;

export function useChanges(sessionId: string, scope: string, revision: string, isWanted = true): LoadedChanges {
  const [list, setList] = useState<ChangeList | null>(null);
  const [problem, setProblem] = useState("");
  const [asked, setAsked] = useState(0);
  const shown = useRef("");
  const reload = useCallback(() => setAsked((count) => count + 1), []);
  useEffect(() => {
    window.addEventListener("focus", reload);
    return () => window.removeEventListener("focus", reload);
  }, [reload]);
  useEffect(() => {
    if (!isWanted) return undefined;
    const abort = new AbortController();
    const isOther = shown.current !== scope;
    // What follows in quick succession is asked for once.
    const timer = setTimeout(
      () =>
        changesApi.list(sessionId, scope, abort.signal).then(
          (loaded) => {
            shown.current = scope;
            setList(loaded);
            setProblem("");
          },
          (error: unknown) => {
            if (abort.signal.aborted) return;
            if (isOther) setList(null);
            shown.current = scope;
            setProblem(error instanceof RequestFailed ? error.message : String(error));
          },
        ),
      isOther ? 0 : PAUSE_MS,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [sessionId, scope, revision, asked, isWanted]);
  return { list: list?.scope === scope || !list ? list : null, problem, reload };
}

/** Changes when the conversation may have changed a file. */
export function useRevision(state: HarnessState): string {
  const { messages, status } = state;
  const written = useMemo(
    () =>
      messages.reduce(
        (sum, { toolCalls }) =>
          sum + (toolCalls ?? []).filter((call) => call.status !== "running" && call.operations?.some(({ kind }) => kind === "write")).length,
        0,
      ),
    [messages],
  );
  return `${written} ${status}`;
}
