/** What the parts of a conversation need of it, wherever they are in the tree. */

import { createContext, useContext } from "react";
import type { ChangedTurn } from "../changes/changes_api.js";
import type { HarnessClient, HarnessMessage, HarnessRelay, HarnessRun } from "../../client/src/index.js";

export interface ConversationFacts {
  readonly sessionId: string;
  /** The folder it works in. */
  readonly cwd: string;
  /** What each turn changed, by the id of its run. */
  readonly changedTurns: ReadonlyMap<string, ChangedTurn>;
  readonly client: HarnessClient;
  readonly relays: ReadonlyMap<string, HarnessRelay>;
  readonly runs: ReadonlyMap<string, HarnessRun>;
  /** The text of the agent in a run. */
  readonly messagesOf: (runId: string) => readonly HarnessMessage[];
  /** It is shown as it was once: nothing can be asked of it. */
  readonly isReplay: boolean;
  /** A message can be rephrased, in a conversation of its own. */
  readonly canGoBack: boolean;
}

export const ConversationContext = createContext<ConversationFacts | null>(null);

export function useConversation(): ConversationFacts {
  const facts = useContext(ConversationContext);
  if (!facts) throw new Error("This part belongs inside a conversation.");
  return facts;
}
