/** What the list is limited to: a state, a project, an agent, a tag. */

import { go, inboxAddress, type InboxFilter, type StateFilter } from "../route.js";
import { Icon, type IconName } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import type { InboxCounts } from "./row.js";
import type { Choice } from "./sections.js";

interface FiltersProps {
  readonly filter: InboxFilter;
  readonly counts: InboxCounts;
  readonly projects: readonly Choice[];
  readonly agents: readonly Choice[];
}

export function Filters({ filter, counts, projects, agents }: FiltersProps) {
  const states: readonly (readonly [StateFilter, string, number])[] = [
    ["", "All", 0],
    ["needs-you", "Needs you", counts.needsYou],
    ["running", "Running", counts.running],
    ["failed", "Failed", counts.failed],
    ["to-review", "To review", counts.toReview],
  ];
  return (
    <div className="filters" role="group" aria-label="Filters">
      {states.map(([state, name, count]) => (
        <button
          key={state}
          type="button"
          className={filter.state === state ? "chip on" : "chip"}
          aria-pressed={filter.state === state}
          onClick={() => go(inboxAddress({ ...filter, state }))}
        >
          {name} {count > 0 && count.toLocaleString("en")}
        </button>
      ))}
      <span className="push row filter-picks">
        {filter.tag && (
          <button type="button" className="chip on" onClick={() => go(inboxAddress({ ...filter, tag: "" }))} aria-label={`Remove the filter #${filter.tag}`}>
            #{inOneLine(filter.tag)} ×
          </button>
        )}
        <Pick
          icon="folder"
          label="Project"
          any="Any project"
          value={filter.project}
          choices={projects}
          onChange={(project) => go(inboxAddress({ ...filter, project }))}
        />
        <Pick icon="agent" label="Agent" any="Any agent" value={filter.agent} choices={agents} onChange={(agent) => go(inboxAddress({ ...filter, agent }))} />
      </span>
    </div>
  );
}

interface PickProps {
  readonly icon: IconName;
  readonly label: string;
  readonly any: string;
  readonly value: string;
  readonly choices: readonly Choice[];
  readonly onChange: (value: string) => void;
}

function Pick({ icon, label, any, value, choices, onChange }: PickProps) {
  return (
    <label className={value ? "chip pick-chip on" : "chip pick-chip"}>
      <Icon name={icon} />
      <select aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">{any}</option>
        {value && !choices.some((choice) => choice.value === value) && <option value={value}>{value.split("/").at(-1)}</option>}
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {inOneLine(choice.name)}
          </option>
        ))}
      </select>
    </label>
  );
}
