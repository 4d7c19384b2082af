import { useState } from "react";
import type { HarnessRelay } from "../../client/src/index.js";
import { useConversation } from "../conversation/context.js";
import { Markdown } from "../text/markdown.js";
import { inOneLine } from "../text/unseen.js";
import { payloadText } from "./payload.js";
import { useSent } from "./use_sent.js";

export function PlanReview({ relay }: { relay: HarnessRelay }) {
  const { client } = useConversation();
  const [feedback, setFeedback] = useState("");
  const [isSent, setSent] = useSent();
  const answer = (action: "approved" | "rejected") => {
    setSent(true);
    client.answer(relay.id, { action, ...(feedback.trim() && { feedback: feedback.trim() }) });
  };
  const plan = payloadText(relay, "plan");
  return (
    <div>
      <p className="ask-title">{inOneLine(payloadText(relay, "title") || (plan ? relay.question : "")) || "Approve this plan?"}</p>
      <div className="plan" tabIndex={0} aria-label="Plan">
        <Markdown text={plan || relay.question} />
      </div>
      <div className="ask-buttons">
        <input
          value={feedback}
          placeholder="What should be different? (optional)"
          aria-label="Feedback"
          onChange={(event) => setFeedback(event.target.value)}
        />
        <button type="button" className="button primary" disabled={isSent} onClick={() => answer("approved")}>
          Approve the plan
        </button>
        <button type="button" className="button" disabled={isSent} onClick={() => answer("rejected")}>
          Ask for changes
        </button>
      </div>
    </div>
  );
}
