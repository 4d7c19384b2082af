import { inOneLine } from "../text/unseen.js";
import { ENDING_NAMES, endingsOf, type AgentOutcomes } from "./bill.js";

/** How the runs of each agent ended. */
export function OutcomeTable({ rows, titles }: { rows: readonly AgentOutcomes[]; titles: ReadonlyMap<string, string> }) {
  const shown = ENDING_NAMES.filter((ending) => ending === "done" || ending === "failed" || endingsOf(rows).has(ending));
  return (
    <section className="usage-panel usage-outcomes" aria-labelledby="usage-outcomes">
      <h2 id="usage-outcomes">How runs ended</h2>
      {rows.length ? (
        <div className="table-frame" tabIndex={0} role="group" aria-label="How runs ended">
          <table className="data usage-data">
            <thead>
              <tr>
                <th scope="col">Agent</th>
                <th scope="col">Runs</th>
                {shown.map((ending) => (
                  <th key={ending} scope="col">
                    {`${ending[0]!.toUpperCase()}${ending.slice(1)}`}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => {
                const counts = endingsOf([row]);
                return (
                  <tr key={row.agent}>
                    <th scope="row">{inOneLine(titles.get(row.agent) ?? row.agent) || "unknown"}</th>
                    <td>{row.runs}</td>
                    {shown.map((ending) => (
                      <td key={ending} className={ending === "failed" && counts.has(ending) ? "bad" : undefined}>
                        {counts.get(ending) ?? 0}
                      </td>
                    ))}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      ) : (
        <p className="small faint">No runs in this time.</p>
      )}
    </section>
  );
}
