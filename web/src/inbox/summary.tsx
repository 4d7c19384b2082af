/** Beside the list: what today costs, and what is to be reviewed. */

import { cost } from "../amounts.js";
import { changesAddress, SETTINGS_ADDRESS } from "../route.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { monogram } from "./agent_badge.js";
import { useAlerts } from "./alerts.js";
import { Delta, titleOf } from "./facts.js";
import { inboxStore, type Inbox } from "./inbox_store.js";
import { needsYou, works, type InboxRow, type InboxToday } from "./row.js";
import { isToReview } from "./sections.js";

const REVIEWED_SHOWN = 5;
const WARN_PERCENT = 80;

export function Summary({ inbox }: { readonly inbox: Inbox }) {
  const toReview = [...inbox.rows.values()].filter(isToReview).sort((left, right) => right.updatedMs - left.updatedMs);
  return (
    <aside className="rail" aria-label="Today">
      <Today today={inbox.today} />
      {toReview.length > 0 && (
        <section>
          <h2 className="row">
            To review <span className="count">{toReview.length}</span>
          </h2>
          <div className="review-list">
            {toReview.slice(0, REVIEWED_SHOWN).map((row) => (
              <div key={row.id} className="review-item">
                <a href={changesAddress(row.id)}>
                  <span className="clip">{titleOf(row)}</span>
                  <Delta {...row.changes!} />
                  <span className="faint">{reviewFacts(row)}</span>
                </a>
                <button type="button" className="quiet round" title="Reviewed: take it from this list" aria-label={`Reviewed: ${titleOf(row)}`} onClick={() => inboxStore().markReviewed(row.id)}>
                  <Icon name="check" isSmall />
                </button>
              </div>
            ))}
          </div>
        </section>
      )}
      <NotificationNote />
    </aside>
  );
}

function reviewFacts(row: InboxRow): string {
  const { files } = row.changes!;
  const state = needsYou(row) ? "needs you" : works(row) ? "running" : row.state === "failed" ? "failed run" : row.state === "lost" ? "lost contact" : "";
  return [inOneLine(row.project.name), files === 1 ? "1 file" : `${files} files`, state].filter(Boolean).join(" · ");
}

function Today({ today }: { readonly today: InboxToday }) {
  const { costUsd, isCostComplete, limitUsd, byAgent } = today;
  const percent = limitUsd ? Math.round(((costUsd ?? 0) / limitUsd) * 100) : 0;
  const most = Math.max(...byAgent.map((one) => one.costUsd ?? 0), 0.0001);
  return (
    <section>
      <h2>Today</h2>
      <div className="big">{cost(costUsd, isCostComplete)}</div>
      {costUsd === null && <p className="small faint">No cost is known yet.</p>}
      {limitUsd !== null && (
        <>
          <div className={percent >= WARN_PERCENT ? "budget warn" : "budget"} aria-hidden="true">
            <i style={{ width: `${Math.min(100, percent)}%` }} />
          </div>
          <p className="small faint num">
            {isCostComplete ? "" : "≥ "}
            {percent} % of {cost(limitUsd).replace(".00", "")} a day
          </p>
        </>
      )}
      <div className="bars">
        {byAgent.map(({ agent, agentName, costUsd: spent, isCostComplete: isAll }) => (
          <div key={agentName || agent} data-tint={monogram(agentName, agent).tint}>
            <span className="clip">{inOneLine(agent || agentName)}</span>
            <span className="track" aria-hidden="true">
              <i style={{ width: `${Math.max(2, ((spent ?? 0) / most) * 100)}%` }} />
            </span>
            <span className="num">{cost(spent, isAll)}</span>
          </div>
        ))}
      </div>
    </section>
  );
}

function NotificationNote() {
  const { isNotified } = useAlerts();
  return (
    <section>
      <div className="callout">
        <Icon name="bell" />
        <span>
          {isNotified ? "You get a notification when something needs you." : "This browser does not notify you."} <a href={SETTINGS_ADDRESS}>Change</a>
        </span>
      </div>
    </section>
  );
}
