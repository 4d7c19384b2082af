import { useState } from "react";
import type { HarnessState } from "../../client/src/index.js";
import { api, type RequestFailed } from "../api.js";
import { useInboxRow } from "../inbox/inbox_store.js";
import { inOneLine } from "../text/unseen.js";
import { useConversation } from "./context.js";

/** Where the server makes worktrees for runs. */
const MADE_FOR_A_RUN = /\/harness\/worktrees\/[^/]+/;

/** The worktree that was made for this conversation, and its end: what is not committed is asked about first. */
export function WorktreePanel({ state }: { state: HarnessState }) {
  const row = useInboxRow(useConversation().sessionId);
  const [refusal, setRefusal] = useState<RequestFailed | null>(null);
  const [isRemoved, setRemoved] = useState(false);
  if (!MADE_FOR_A_RUN.test(state.cwd) || state.status === "running") return null;
  const remove = (force: boolean) => api.removeWorktree(state.cwd, force).then(() => (setRemoved(true), setRefusal(null)), setRefusal);
  return (
    <section aria-label="Worktree">
      <h2>Worktree</h2>
      <p className="small">
        Branch <code>{inOneLine(row?.branch ?? "", "code") || "unknown"}</code>
        {isRemoved && " stays; its worktree is removed."}
      </p>
      {refusal && (
        <p className="problem small" role="alert">
          {refusal.message}
        </p>
      )}
      {!isRemoved && (
        <p>
          {refusal?.status === 409 ? (
            <button type="button" className="button small stop" onClick={() => void remove(true)}>
              Remove it with these changes
            </button>
          ) : (
            <button type="button" className="button small" onClick={() => void remove(false)}>
              Remove worktree
            </button>
          )}
        </p>
      )}
    </section>
  );
}
