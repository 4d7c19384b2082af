/** How another agent would continue a session, and what it does not get of it. */

import { useEffect, useState } from "react";
import { api, type HandoverOffer, type RequestFailed } from "../api.js";
import { inOneLine } from "../text/unseen.js";

const counted = (count: number, noun: string): string => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

export function HandoverNote({ session, agent }: { readonly session: string; readonly agent: string }) {
  const [offer, setOffer] = useState<HandoverOffer | null>(null);
  const [problem, setProblem] = useState<RequestFailed | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    setOffer(null);
    setProblem(null);
    api.handOver(session, agent, abort.signal).then(setOffer, (error: RequestFailed) => !abort.signal.aborted && setProblem(error));
    return () => abort.abort();
  }, [session, agent]);
  if (problem)
    return (
      <p className="problem" role="alert">
        {problem.message} {problem.hint}
      </p>
    );
  if (!offer)
    return (
      <p className="start-hint" aria-busy="true">
        Looking at what can be handed over…
      </p>
    );
  const name = inOneLine([offer.title, offer.version].filter(Boolean).join(" "));
  return (
    <section className="handover" aria-label="Hand-over">
      <p>
        <b>{offer.form === "native" ? `As a session of ${name} of its own` : `As a briefing before your prompt, for ${name}`}</b>:{" "}
        {counted(offer.messages, "message")}, {counted(offer.calls, "call")}. <span className="faint">{inOneLine(offer.why)}.</span>
      </p>
      {offer.now.map((line) => (
        <p key={line}>Now: {inOneLine(line, "code")}.</p>
      ))}
      <details>
        <summary>Not handed over</summary>
        <ul>
          {offer.lost.map((line) => (
            <li key={line}>{inOneLine(line)}</li>
          ))}
        </ul>
      </details>
    </section>
  );
}
