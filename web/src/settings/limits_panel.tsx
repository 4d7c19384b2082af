import { useEffect, useState, type FormEvent } from "react";
import { cost } from "../amounts.js";
import { api, type BudgetSettings, type LimitChange, type Project } from "../api.js";
import { inOneLine } from "../text/unseen.js";
import { dollarsOf, lastFolder } from "../usage/bill.js";

type Period = LimitChange["period"];
interface Field {
  readonly name: "dayUsd" | "monthUsd" | "projectDayUsd" | "projectMonthUsd";
  readonly title: string;
  readonly period: Period;
  readonly isEachProject: boolean;
}

const FIELDS: readonly Field[] = [
  { name: "dayUsd", title: "A day", period: "day", isEachProject: false },
  { name: "monthUsd", title: "A month", period: "month", isEachProject: false },
  { name: "projectDayUsd", title: "Each project, a day", period: "day", isEachProject: true },
  { name: "projectMonthUsd", title: "Each project, a month", period: "month", isEachProject: true },
];

/** What runs may cost: in all, in each project, and in one. */
export function LimitsPanel() {
  const [settings, setSettings] = useState<BudgetSettings | null>(null);
  const [message, setMessage] = useState("");
  const fail = (error: Error) => setMessage(error.message);
  useEffect(() => void api.budget().then(setSettings, fail), []);
  const change = (...changes: readonly LimitChange[]) =>
    api.setBudget(changes).then((now) => {
      setSettings(now);
      setMessage("Saved.");
    }, fail);
  return (
    <section className="setting-panel" aria-labelledby="settings-limits">
      <h2 id="settings-limits">Limits</h2>
      <p className="small faint">When a limit is reached, a run asks whether it may continue; one that nothing can answer is refused. Sessions that agents run outside of Harness are not counted.</p>
      {settings && (
        <>
          <div className="limit-fields">
            {FIELDS.map((field) => (
              <LimitField key={field.name} field={field} settings={settings} onChange={(limitUsd) => void change({ period: field.period, limitUsd, isEachProject: field.isEachProject })} />
            ))}
          </div>
          <ProjectLimits settings={settings} onChange={change} />
        </>
      )}
      {message && (
        <p className="small setting-foot" role="status">
          {message}
        </p>
      )}
    </section>
  );
}

function LimitField({ field, settings, onChange }: { field: Field; settings: BudgetSettings; onChange: (limitUsd: number | null) => void }) {
  const known = settings.own[field.name];
  const [text, setText] = useState(shown(known));
  useEffect(() => setText(shown(known)), [known]);
  const amount = dollarsOf(text);
  const isWrong = Number.isNaN(amount);
  const save = (event?: FormEvent) => {
    event?.preventDefault();
    if (!isWrong && amount !== known) onChange(amount);
  };
  const id = `limit-${field.name}`;
  return (
    <form onSubmit={save}>
      <label htmlFor={id}>{field.title}</label>
      <input id={id} inputMode="decimal" placeholder="no limit" value={text} aria-invalid={isWrong} aria-describedby={`${id}-note`} onChange={(event) => setText(event.target.value)} onBlur={() => save()} />
      <span id={`${id}-note`} className={isWrong ? "small bad" : "small faint"}>
        {isWrong ? "an amount of dollars, or nothing" : noteOf(field, settings)}
      </span>
    </form>
  );
}

function noteOf({ period, isEachProject }: Field, { limits }: BudgetSettings): string {
  if (isEachProject) return "of projects without a limit of their own";
  const limit = limits.find((one) => one.period === period && !one.project);
  return limit ? `${cost(limit.spentUsd, limit.isCostComplete)} spent so far` : "runs ask when it is reached";
}

function shown(limitUsd: number | null): string {
  return limitUsd === null ? "" : `$${limitUsd.toFixed(2)}`;
}

type Change = (...changes: readonly LimitChange[]) => Promise<void>;

function ProjectLimits({ settings, onChange }: { settings: BudgetSettings; onChange: Change }) {
  const { projects } = settings.own;
  return (
    <>
      {projects.length > 0 && (
        <ul className="limit-projects">
          {projects.map(({ folder, dayUsd, monthUsd }) => (
            <li key={folder}>
              <span className="grow clipped" title={inOneLine(folder, "code")}>
                <b>{inOneLine(lastFolder(folder), "code")}</b> <span className="faint small">{inOneLine(folder, "code")}</span>
              </span>
              <span className="num small">{[dayUsd !== null && `${cost(dayUsd)} a day`, monthUsd !== null && `${cost(monthUsd)} a month`].filter(Boolean).join(" · ")}</span>
              <button type="button" className="button small stop" onClick={() => void onChange({ period: "day", limitUsd: null, project: folder }, { period: "month", limitUsd: null, project: folder })}>
                Remove<span className="unseen"> the limits of {inOneLine(lastFolder(folder), "code")}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      <NewProjectLimit onChange={onChange} />
    </>
  );
}

function NewProjectLimit({ onChange }: { onChange: Change }) {
  const [known, setKnown] = useState<readonly Project[]>([]);
  const [folder, setFolder] = useState("");
  const [period, setPeriod] = useState<Period>("day");
  const [text, setText] = useState("");
  useEffect(() => void api.projects().then(({ projects }) => setKnown(projects), () => undefined), []);
  const amount = dollarsOf(text);
  const isReady = !!folder && amount !== null && !Number.isNaN(amount);
  const add = (event: FormEvent) => {
    event.preventDefault();
    if (isReady) void onChange({ period, limitUsd: amount, project: folder }).then(() => setText(""));
  };
  if (!known.length) return null;
  return (
    <form className="setting-foot limit-new" onSubmit={add}>
      <select aria-label="Project" value={folder} onChange={(event) => setFolder(event.target.value)}>
        <option value="">One project…</option>
        {known.map((project) => (
          <option key={project.folder} value={project.folder}>
            {inOneLine(project.name, "code")}
          </option>
        ))}
      </select>
      <select aria-label="Period" value={period} onChange={(event) => setPeriod(event.target.value as Period)}>
        <option value="day">a day</option>
        <option value="month">a month</option>
      </select>
      <input aria-label="Limit in dollars" inputMode="decimal" placeholder="$5.00" value={text} onChange={(event) => setText(event.target.value)} />
      <button type="submit" className="button small" disabled={!isReady}>
        Add limit
      </button>
    </form>
  );
}
