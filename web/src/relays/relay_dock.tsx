/** What somebody is asked, above the place to write: never out of sight while a run waits for it. */

import { useState } from "react";
import type { HarnessRelay } from "../../client/src/index.js";
import { inOneLine } from "../text/unseen.js";
import { Permission } from "./permission.js";
import { PlanReview } from "./plan_review.js";
import { Question } from "./question.js";

interface DockProps {
  readonly relays: readonly HarnessRelay[];
  readonly canAnswer: boolean;
  /** Of a record, what was never answered is history and no question. */
  readonly isLive: boolean;
}

export function RelayDock({ relays, canAnswer, isLive }: DockProps) {
  const pending = relays.filter((relay) => relay.status === "pending");
  const [chosen, setChosen] = useState(0);
  if (!pending.length || !(canAnswer || isLive)) return null;
  const index = Math.min(chosen, pending.length - 1);
  const relay = pending[index]!;
  return (
    <section className="dock" aria-label="The agent is waiting for you" role="region">
      {pending.length > 1 && (
        <nav className="dock-pages faint" aria-label="Questions">
          <button type="button" className="quiet small" disabled={index === 0} onClick={() => setChosen(index - 1)} aria-label="Previous">
            ‹
          </button>
          {index + 1} of {pending.length}
          <button
            type="button"
            className="quiet small"
            disabled={index === pending.length - 1}
            onClick={() => setChosen(index + 1)}
            aria-label="Next"
          >
            ›
          </button>
        </nav>
      )}
      <p key={`told ${relay.id}`} className="unseen" role="alert">
        The agent is waiting for you
      </p>
      <Ask key={relay.id} relay={relay} canAnswer={canAnswer} />
      {!canAnswer && <p className="faint">This cannot be answered from here.</p>}
    </section>
  );
}

const FORMS = { permission: Permission, plan: PlanReview, question: Question, tool: Question } as const;

function Ask({ relay, canAnswer }: { relay: HarnessRelay; canAnswer: boolean }) {
  const Form = FORMS[relay.kind] ?? Question;
  return (
    <fieldset disabled={!canAnswer} className="ask">
      {relay.subagent && (
        <p className="asker">
          The sub-agent <strong>{inOneLine(relay.subagent, "code")}</strong> asks
        </p>
      )}
      <Form relay={relay} />
    </fieldset>
  );
}
