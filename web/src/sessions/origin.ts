/** The session that a new conversation continues: all of it, or what came before one message. */

import { useEffect, useState } from "react";
import { partsOf, type Attachment, type HarnessMessage } from "../../client/src/index.js";
import { api, type RequestFailed, type Session } from "../api.js";

export interface Origin {
  readonly session: Session;
  /** The message that is to be rephrased. */
  readonly message: HarnessMessage | null;
}

export interface FoundOrigin {
  readonly origin: Origin | null;
  readonly problem: RequestFailed | null;
}

export function useOrigin(continues: string, before: string): FoundOrigin {
  const [found, setFound] = useState<FoundOrigin>({ origin: null, problem: null });
  useEffect(() => {
    if (!continues) return undefined;
    const abort = new AbortController();
    const message = before
      ? api.state(continues, abort.signal).then(({ state }) => state.messages.find(({ id }) => id === before) ?? null)
      : Promise.resolve(null);
    Promise.all([api.session(continues, abort.signal), message]).then(
      ([session, message]) => setFound({ origin: { session, message }, problem: null }),
      (problem: RequestFailed) => !abort.signal.aborted && setFound({ origin: null, problem }),
    );
    return () => abort.abort();
  }, [continues, before]);
  return found;
}

export function attachmentsOf(message: HarnessMessage): readonly Attachment[] {
  return partsOf(message).flatMap((part) =>
    part.type === "file" && part.data ? [{ mediaType: part.mediaType, name: part.name, data: part.data }] : [],
  );
}
