import { cost, count } from "../amounts.js";
import { inOneLine } from "../text/unseen.js";
import { sourceOf, type Bill } from "./bill.js";

const tokens = (amount: number | null) => (amount === null ? "–" : count(amount));

export function ModelTable({ bill, titles }: { bill: Bill; titles: ReadonlyMap<string, string> }) {
  return (
    <section className="usage-panel usage-models" aria-labelledby="usage-models">
      <h2 id="usage-models">By model</h2>
      <div className="table-frame" tabIndex={0} role="group" aria-label="By model">
        <table className="data usage-data">
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Agent</th>
              <th scope="col">Input</th>
              <th scope="col">From cache</th>
              <th scope="col">To cache</th>
              <th scope="col">Output</th>
              <th scope="col">Cost</th>
              <th scope="col">
                <span className="unseen">How it is known</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {bill.rows.map((row, index) => (
              <tr key={index}>
                <th scope="row">{inOneLine(row.model ?? "", "code") || "unknown"}</th>
                <td>{inOneLine(titles.get(row.agent ?? "") ?? row.agent ?? "")}</td>
                <td>{tokens(row.input)}</td>
                <td>{tokens(row.cache_read)}</td>
                <td>{tokens(row.cache_write)}</td>
                <td>{tokens(row.output)}</td>
                <td>{cost(row.cost_usd, row.is_cost_complete)}</td>
                <td className="faint">{sourceOf(row)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="small faint">
        <strong>stated</strong>: by the agent. <strong>priced</strong>: from list prices of {bill.prices_date}. – is unknown, not zero; ≥ means that a part has no price. Sub-agents are counted
        once.
      </p>
    </section>
  );
}
