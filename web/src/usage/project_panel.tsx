import { cost } from "../amounts.js";
import { useInbox } from "../inbox/inbox_store.js";
import { titleOf } from "../inbox/facts.js";
import { sessionAddress } from "../route.js";
import { inOneLine } from "../text/unseen.js";
import { lastFolder, type Bill } from "./bill.js";

const [PROJECTS_MAX, SESSIONS_MAX] = [8, 5] as const;

export function ProjectPanel({ projects, sessions }: { projects: Bill; sessions: Bill }) {
  const { rows } = useInbox();
  const highest = Math.max(...projects.rows.map((row) => row.cost_usd ?? 0), 0.0001);
  const dearest = [...sessions.rows].filter((row) => row.session && row.cost_usd).sort((left, right) => (right.cost_usd ?? 0) - (left.cost_usd ?? 0));
  return (
    <section className="usage-panel usage-projects" aria-labelledby="usage-projects">
      <h2 id="usage-projects">By project</h2>
      {!projects.rows.length && <p className="small faint">Nothing was used in this time.</p>}
      <div className="bars">
        {projects.rows.slice(0, PROJECTS_MAX).map((row) => (
          <div key={row.project ?? ""} title={inOneLine(row.project ?? "", "code")}>
            <span className="clipped">{inOneLine(lastFolder(row.project ?? ""), "code") || "unknown"}</span>
            <span className="track">
              <i style={{ width: `${(100 * (row.cost_usd ?? 0)) / highest}%` }} />
            </span>
            <span className="num">{cost(row.cost_usd, row.is_cost_complete)}</span>
          </div>
        ))}
      </div>
      {dearest.length > 0 && (
        <>
          <h2>Most expensive conversations</h2>
          <div className="review-list">
            {dearest.slice(0, SESSIONS_MAX).map((row) => {
              const known = rows.get(row.session!);
              return (
                <a key={row.session} href={sessionAddress(row.session!)}>
                  <span className="clipped">{known ? titleOf(known) : row.session}</span>
                  <span className="num">{cost(row.cost_usd, row.is_cost_complete)}</span>
                  {known && <span className="faint">{inOneLine(known.project.name)}</span>}
                </a>
              );
            })}
          </div>
        </>
      )}
    </section>
  );
}
