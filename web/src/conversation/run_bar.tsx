import type { HarnessRun } from "../../client/src/index.js";
import { sessionAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { useConversation } from "./context.js";

/** In place of the composer: a sub-agent takes messages only from its agent. */
export function RunBar({ run }: { run: HarnessRun }) {
  const { sessionId } = useConversation();
  return (
    <div className="read-only faint">
      <span>
        The sub-agent <strong>{inOneLine(run.name || run.agent || "agent")}</strong>
        {run.status === "running" ? " works for its agent." : " has ended."}
      </span>
      <a className="button" href={sessionAddress(sessionId)}>
        <Icon name="back" /> Back to the conversation
      </a>
    </div>
  );
}
