/**
 * Tasks × variants, one sign for each run. Arrow keys move, Enter opens; the sign that is at the cursor has the focus.
 *
 * Only the tasks that are near the screen are in the page.
 */

import { memo, useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { Windowed } from "../inbox/windowed.js";
import { inOneLine } from "../text/unseen.js";
import { caseTitle, caseWords, MARKS, type CaseState, type FleetCase, type FleetView } from "./fleet_state.js";

const ROW_PX = 33;

interface MatrixProps {
  readonly view: FleetView;
  /** The case that is open. */
  readonly chosen: string;
  readonly onChoose: (id: string) => void;
}

interface TaskRow {
  readonly task: string;
  readonly cells: readonly (readonly FleetCase[])[];
}

/** The cases of each task, by variant: in the order of the plan, so every cell has `repeats` of them. */
function rowsOf({ tasks, variants, repeats, cases }: FleetView): readonly TaskRow[] {
  const ofTask = variants.length * repeats;
  return tasks.map((task, index) => ({
    task,
    cells: variants.map((_, variant) => cases.slice(index * ofTask + variant * repeats, index * ofTask + (variant + 1) * repeats)),
  }));
}

export function Matrix({ view, chosen, onChoose }: MatrixProps) {
  const rows = useMemo(() => rowsOf(view), [view]);
  const [cursor, setCursor] = useState(view.cases[0]?.id ?? "");
  const box = useRef<HTMLDivElement>(null);
  const wantsFocus = useRef(false);
  const ofTask = view.variants.length * view.repeats;
  const cursorTask = rows[Math.floor(view.cases.findIndex((one) => one.id === cursor) / ofTask)]?.task ?? "";
  useEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    const sign = box.current?.querySelector<HTMLButtonElement>(`[data-case="${cursor}"]`);
    sign?.focus();
    sign?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [cursor]);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = STEPS[event.key]?.(ofTask, view.cases.length);
    const here = view.cases.findIndex((one) => one.id === cursor);
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = view.cases[Math.max(0, Math.min(view.cases.length - 1, here + step))];
    if (!next || (Math.abs(step) === ofTask && (here + step < 0 || here + step >= view.cases.length))) return;
    wantsFocus.current = true;
    setCursor(next.id);
  };
  const columns = `minmax(110px, 1.4fr) repeat(${view.variants.length}, minmax(${Math.max(64, view.repeats * 26 + 18)}px, 1fr))`;
  return (
    <div className="fleet-matrix-frame">
      <div ref={box} className="fleet-matrix" role="table" aria-label="Tasks and variants" aria-rowcount={rows.length + 1} style={{ "--fleet-columns": columns } as React.CSSProperties} onKeyDown={onKeyDown}>
        <div className="fleet-matrix-row fleet-matrix-head" role="row">
          <span role="columnheader">Task</span>
          {view.variants.map(({ name }) => (
            <span key={name} role="columnheader" className="clip" title={inOneLine(name)}>
              {inOneLine(name, "code")}
            </span>
          ))}
        </div>
        <Windowed items={rows} keyOf={(row) => row.task} rowHeight={ROW_PX} cursor={cursorTask}>
          {(row) => <Row key={row.task} row={row} repeats={view.repeats} cursor={row.task === cursorTask ? cursor : ""} chosen={row.cells.some((cell) => cell.some(({ id }) => id === chosen)) ? chosen : ""} onChoose={onChoose} onCursor={setCursor} />}
        </Windowed>
      </div>
      <Legend />
    </div>
  );
}

const STEPS: Readonly<Record<string, (ofTask: number, total: number) => number>> = {
  ArrowRight: () => 1,
  l: () => 1,
  ArrowLeft: () => -1,
  h: () => -1,
  ArrowDown: (ofTask) => ofTask,
  j: (ofTask) => ofTask,
  ArrowUp: (ofTask) => -ofTask,
  k: (ofTask) => -ofTask,
  Home: (_, total) => -total,
  End: (_, total) => total,
};

interface RowProps {
  readonly row: TaskRow;
  readonly repeats: number;
  readonly cursor: string;
  readonly chosen: string;
  readonly onChoose: (id: string) => void;
  readonly onCursor: (id: string) => void;
}

const isSameRow = (before: RowProps, now: RowProps) =>
  before.cursor === now.cursor && before.chosen === now.chosen && before.repeats === now.repeats && before.row.cells.every((cell, index) => cell.every((one, at) => one === now.row.cells[index]?.[at]));

const Row = memo(function Row({ row, repeats, cursor, chosen, onChoose, onCursor }: RowProps) {
  return (
    <div className="fleet-matrix-row" role="row">
      <span role="rowheader" className="clip" title={inOneLine(row.task)}>
        {inOneLine(row.task, "code")}
      </span>
      {row.cells.map((cell, index) => (
        <span key={index} role="cell" className="fleet-cell">
          {cell.map((one) => (
            <button
              key={one.id}
              type="button"
              className="fleet-mark"
              data-state={one.state}
              data-case={one.id}
              aria-pressed={one.id === chosen}
              tabIndex={one.id === cursor ? 0 : -1}
              aria-label={`${inOneLine(caseTitle(one, repeats))}: ${inOneLine(caseWords(one))}`}
              title={inOneLine(caseWords(one))}
              onClick={() => onChoose(one.id)}
              onFocus={() => onCursor(one.id)}
            >
              <span aria-hidden="true">{MARKS[one.state][0]}</span>
            </button>
          ))}
        </span>
      ))}
    </div>
  );
}, isSameRow);

const LEGEND: readonly CaseState[] = ["passed", "failed", "error", "running", "waiting"];

function Legend() {
  return (
    <p className="fleet-legend tiny faint">
      {LEGEND.map((state) => (
        <span key={state}>
          <b className="fleet-sign" data-state={state} aria-hidden="true">
            {MARKS[state][0]}
          </b>{" "}
          {MARKS[state][1]}
        </span>
      ))}
    </p>
  );
}
