/** A limit that a session has reached: how much was spent of it, and the way to change it. */

import { cost } from "../amounts.js";
import { SETTINGS_ADDRESS } from "../route.js";
import { inOneLine } from "../text/unseen.js";
import { shortPath } from "./facts.js";
import type { ReachedLimit } from "./question.js";

const PERIODS = { day: "today", month: "this month" } as const;

export function LimitFacts({ limit: { period, project, limitUsd, spentUsd } }: { readonly limit: ReachedLimit }) {
  const words = `${cost(spentUsd)} of ${cost(limitUsd)} spent ${PERIODS[period]}`;
  return (
    <p className="ask-limit small">
      <progress max={limitUsd} value={Math.min(spentUsd, limitUsd)} aria-label={words} />
      <span>
        {words}
        {project && (
          <>
            {" "}
            in <code>{inOneLine(shortPath(project), "code")}</code>
          </>
        )}
      </span>
      <a href={SETTINGS_ADDRESS}>Change the limit</a>
    </p>
  );
}
