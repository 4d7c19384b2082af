import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { Delta } from "./amounts.js";
import type { ChangeList } from "./changes_api.js";

interface ScopesProps {
  readonly list: ChangeList;
  readonly scope: string;
  readonly onChoose: (scope: string) => void;
}

/** The usual scopes, side by side. */
export function ScopeSegments({ list, scope, onChoose }: ScopesProps) {
  const last = list.turns.at(-1);
  const chosen = list.turns.find(({ id }) => scope === `turn:${id}`) ?? last;
  const scopes: [string, string][] = [["conversation", "This conversation"]];
  if (chosen && list.turns.length > 1) scopes.push([`turn:${chosen.id}`, `Turn ${chosen.number}`]);
  const uncommitted = scope === "uncommitted" ? list.files.length : 0;
  if (list.git) scopes.push(["uncommitted", uncommitted ? `Not committed ${uncommitted}` : "Not committed"]);
  return (
    <div className="changes-segments" role="group" aria-label="What is compared">
      {scopes.map(([id, name]) => (
        <button key={id} type="button" aria-pressed={scope === id} onClick={() => onChoose(id)}>
          {name}
        </button>
      ))}
    </div>
  );
}

/** All of them, one below the other. */
export function ScopeList({ list, scope, onChoose }: ScopesProps) {
  return (
    <>
      <h2>Turns</h2>
      <ul className="changes-scopes">
        <Scope id="conversation" name="All of them" scope={scope} onChoose={onChoose} totals={scope === "conversation" ? list : null} />
        {[...list.turns].reverse().map((turn) => (
          <Scope key={turn.id} id={`turn:${turn.id}`} name={`${turn.number} · ${turn.title}`} scope={scope} onChoose={onChoose} totals={turn} />
        ))}
      </ul>
      {list.git && (
        <>
          <h2>In git</h2>
          <ul className="changes-scopes">
            <Scope id="uncommitted" name="Not committed" scope={scope} onChoose={onChoose} totals={null} icon="commit" />
            {list.git.base && <Scope id="base" name={`Against ${list.git.base}`} scope={scope} onChoose={onChoose} totals={null} icon="branch" />}
          </ul>
        </>
      )}
    </>
  );
}

interface ScopeProps {
  readonly id: string;
  readonly name: string;
  readonly scope: string;
  readonly onChoose: (scope: string) => void;
  readonly totals: { readonly added: number; readonly removed: number } | null;
  readonly icon?: "commit" | "branch";
}

function Scope({ id, name, scope, onChoose, totals, icon }: ScopeProps) {
  return (
    <li>
      <button type="button" className="changes-scope" aria-current={scope === id || undefined} onClick={() => onChoose(id)}>
        {icon && <Icon name={icon} />}
        <span className="clipped">{inOneLine(name)}</span>
        {totals && <Delta added={totals.added} removed={totals.removed} />}
      </button>
    </li>
  );
}

/** The same to choose from, where there is little room. */
export function ScopeSelect({ list, scope, onChoose }: ScopesProps) {
  return (
    <select className="changes-scope-select" value={scope} aria-label="What is compared" onChange={(event) => onChoose(event.target.value)}>
      <option value="conversation">All turns</option>
      {[...list.turns].reverse().map(({ id, number, title }) => (
        <option key={id} value={`turn:${id}`}>
          Turn {number}: {inOneLine(title).slice(0, 40)}
        </option>
      ))}
      {list.git && <option value="uncommitted">Not committed</option>}
      {list.git?.base && <option value="base">Against {list.git.base}</option>}
    </select>
  );
}
