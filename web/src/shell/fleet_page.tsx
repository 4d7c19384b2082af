import { Icon } from "./icon.js";

/** The place for one task with several agents. */
export function FleetPage() {
  return (
    <main className="main">
      <header className="bar">
        <h1>Fleet</h1>
      </header>
      <div className="scroll">
        <div className="page-column">
          <div className="table empty">
            <p className="faint">
              <Icon name="fleet" />
            </p>
            <p className="empty-title">Run one task with several agents</p>
            <p className="small faint">
              Compare results, cost and time. In the terminal today: <code>harness fleet</code>.
            </p>
          </div>
        </div>
      </div>
    </main>
  );
}
