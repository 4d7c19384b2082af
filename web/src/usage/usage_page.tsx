/** What agents used and what it cost: by day, project, agent and model. */

import { useEffect, useMemo, useState } from "react";
import { setTitle } from "../inbox/alerts.js";
import { useChoices } from "../sessions/choices.js";
import { Icon } from "../shell/icon.js";
import { Segments } from "../shell/segments.js";
import "../style/usage.css";
import { inOneLine } from "../text/unseen.js";
import { csvOf, lastDays, lastFolder, type Measure, type Split, type UsageFilter } from "./bill.js";
import { ByDay } from "./by_day.js";
import { ModelTable } from "./model_table.js";
import { MonthPanel } from "./month_panel.js";
import { OutcomeTable } from "./outcome_table.js";
import { ProjectPanel } from "./project_panel.js";
import { Totals } from "./totals.js";
import { useBills } from "./use_bills.js";

type Period = "today" | "7" | "14" | "month";

const PERIODS: readonly (readonly [Period, string])[] = [
  ["today", "Today"],
  ["7", "7 days"],
  ["14", "14 days"],
  ["month", "Month"],
];

function daysOf(period: Period, today: Date): number {
  return period === "today" ? 1 : period === "month" ? today.getDate() : Number(period);
}

export function UsagePage() {
  const [period, setPeriod] = useState<Period>("14");
  const [split, setSplit] = useState<Split>("agent");
  const [measure, setMeasure] = useState<Measure>("cost");
  const [filter, setFilter] = useState<UsageFilter>({ agent: "", project: "" });
  const [today] = useState(() => new Date());
  const days = useMemo(() => lastDays(daysOf(period, today), today), [period, today]);
  const { bills, problem } = useBills(days.length, split, filter);
  const { agents } = useChoices();
  const titles = useMemo(() => new Map(agents.map(({ name, title }) => [name, title || name])), [agents]);
  useEffect(() => setTitle("Usage – Harness"), []);
  const name = PERIODS.find(([id]) => id === period)![1];
  return (
    <main className="main">
      <header className="bar usage-bar">
        <h1>Usage</h1>
        <span className="small faint grow">{rangeOf(days)}</span>
        <Segments label="Period" options={PERIODS} value={period} onChange={setPeriod} />
        <Filter label="Project" all="Any project" value={filter.project} options={(bills?.projects.rows ?? []).map((row) => row.project ?? "")} nameOf={lastFolder} onChange={(project) => setFilter({ ...filter, project })} />
        <Filter label="Agent" all="Any agent" value={filter.agent} options={[...titles.keys()]} nameOf={(agent) => titles.get(agent) ?? agent} onChange={(agent) => setFilter({ ...filter, agent })} />
        <button type="button" className="quiet" disabled={!bills} onClick={() => bills && download(csvOf(bills.days.rows.filter(({ day }) => day && days.includes(day))))}>
          <Icon name="copy" /> CSV
        </button>
      </header>
      <div className="scroll" tabIndex={0} role="group" aria-label="Usage">
        {problem && (
          <p className="usage-problem problem" role="alert">
            {problem.message} {problem.hint}
          </p>
        )}
        {bills ? (
          <div className="usage">
            <Totals bills={bills} days={days} name={name} />
            <ByDay bill={bills.days} days={days} split={split} measure={measure} titles={titles} onSplit={setSplit} onMeasure={setMeasure} />
            <MonthPanel bill={bills.month} today={today} limits={bills.limits} />
            <OutcomeTable rows={bills.models.outcomes} titles={titles} />
            <ProjectPanel projects={bills.projects} sessions={bills.sessions} />
            <ModelTable bill={bills.models} titles={titles} />
          </div>
        ) : (
          !problem && (
            <p className="usage-problem faint" role="status">
              <span className="spinner" aria-hidden="true" /> Adding up…
            </p>
          )
        )}
      </div>
    </main>
  );
}

interface FilterProps {
  readonly label: string;
  readonly all: string;
  readonly value: string;
  readonly options: readonly string[];
  readonly nameOf: (option: string) => string;
  readonly onChange: (value: string) => void;
}

function Filter({ label, all, value, options, nameOf, onChange }: FilterProps) {
  const shown = [...new Set([...options, value])].filter(Boolean);
  return (
    <select className="usage-filter" aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">{all}</option>
      {shown.map((option) => (
        <option key={option} value={option}>
          {inOneLine(nameOf(option), "code")}
        </option>
      ))}
    </select>
  );
}

function rangeOf(days: readonly string[]): string {
  const words = (day: string) => {
    const [year, month, date] = day.split("-").map(Number) as [number, number, number];
    return new Date(year, month - 1, date).toLocaleDateString("en-GB", { day: "numeric", month: "long" });
  };
  return days.length === 1 ? words(days[0]!) : `${words(days[0]!)} – ${words(days.at(-1)!)}`;
}

function download(text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = "harness-usage.csv";
  link.click();
  URL.revokeObjectURL(address);
}
