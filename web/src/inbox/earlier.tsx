/** What has ended, by project and day, or by day alone. */

import { useState } from "react";
import { cost } from "../amounts.js";
import { Icon } from "../shell/icon.js";
import { useStored } from "../shell/stored.js";
import { inOneLine } from "../text/unseen.js";
import { shortPath } from "./facts.js";
import { inboxStore } from "./inbox_store.js";
import { EarlierItem } from "./row_item.js";
import { groupsOf, type Group } from "./sections.js";
import type { InboxRow } from "./row.js";
import { Windowed } from "./windowed.js";

const ROW_HEIGHT = 37;
const MORE = 300;

export type GroupedBy = "project" | "day";

export function useGroupedBy(): readonly [GroupedBy, () => void] {
  const [text, setText] = useStored("harness.grouped-by");
  const by = text === "day" ? "day" : "project";
  return [by, () => setText(by === "day" ? "project" : "day")];
}

export function earlierGroups(rows: readonly InboxRow[], by: GroupedBy, now_ms: number): readonly Group[] {
  return groupsOf(rows, by, now_ms);
}

interface EarlierProps {
  readonly groups: readonly Group[];
  readonly by: GroupedBy;
  readonly onToggle: () => void;
  readonly cursorAt: string;
  readonly now_ms: number;
  /** How many more the server has. */
  readonly moreCount: number;
  readonly loadedCount: number;
}

export function Earlier({ groups, by, onToggle, cursorAt, now_ms, moreCount, loadedCount }: EarlierProps) {
  if (!groups.length && !moreCount) return null;
  return (
    <section aria-label="Earlier">
      <h2 className="section">
        Earlier <span className="faint">{by === "project" ? "by project" : "by day"}</span>
        <button type="button" className="quiet push" onClick={onToggle}>
          {by === "project" ? "By day" : "By project"}
        </button>
      </h2>
      {groups.map((group) => (
        <div key={group.key} className="table earlier-group">
          <div className="group">
            <Icon name={by === "project" ? "folder" : "clock"} isSmall />
            <b className="clip">{inOneLine(group.name, "code")}</b>
            {group.root && <span className="faint clip group-root">{shortPath(group.root)}</span>}
            <span className="push num">
              {[group.day, String(group.rows.length), group.costUsd === null ? "" : cost(group.costUsd, group.isCostComplete)].filter(Boolean).join(" · ")}
            </span>
          </div>
          <Windowed items={group.rows} keyOf={(row) => row.id} rowHeight={ROW_HEIGHT} cursor={cursorAt}>
            {(row) => <EarlierItem key={row.id} row={row} isAt={cursorAt === row.id} now_ms={now_ms} />}
          </Windowed>
        </div>
      ))}
      {moreCount > 0 && <MoreButton count={moreCount} loadedCount={loadedCount} />}
    </section>
  );
}

function MoreButton({ count, loadedCount }: { readonly count: number; readonly loadedCount: number }) {
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const load = () => {
    setBusy(true);
    inboxStore()
      .loadMore(loadedCount + MORE)
      .then(
        () => setProblem(""),
        (error: Error) => setProblem(error.message),
      )
      .finally(() => setBusy(false));
  };
  return (
    <p className="more-rows">
      <button type="button" className="button small" disabled={isBusy} onClick={load}>
        Show more ({count.toLocaleString("en")})
      </button>
      {problem && (
        <span className="bad small" role="alert">
          {problem}
        </span>
      )}
    </p>
  );
}
