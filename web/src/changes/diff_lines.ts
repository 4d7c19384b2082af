/** The rows of a diff as the lines of a table: one below the other, or old and new side by side. */

import type { DiffRow } from "./changes_api.js";

export interface DiffLine {
  /** Of a place: the heading of the lines that follow. */
  readonly place: DiffRow | null;
  readonly left: DiffRow | null;
  readonly right: DiffRow | null;
  /** The row that this one replaced, or was replaced by: their words are compared. */
  readonly partner: DiffRow | null;
}

const line = (fields: Partial<DiffLine>): DiffLine => ({ place: null, left: null, right: null, partner: null, ...fields });

export function unifiedLines(rows: readonly DiffRow[]): readonly DiffLine[] {
  return groups(rows).flatMap((group) => {
    if (group.single) return [singleLine(group.single)];
    const pairs = paired(group.removed, group.added);
    return [
      ...pairs.flatMap(([left, partner]) => (left ? [line({ left, partner })] : [])),
      ...pairs.flatMap(([partner, right]) => (right ? [line({ right, partner })] : [])),
    ];
  });
}

export function splitLines(rows: readonly DiffRow[]): readonly DiffLine[] {
  return groups(rows).flatMap((group) =>
    group.single ? [singleLine(group.single)] : paired(group.removed, group.added).map(([left, right]) => line({ left, right })),
  );
}

const singleLine = (row: DiffRow) => (row.kind === "place" ? line({ place: row }) : line({ left: row, right: row }));

interface Group {
  readonly single: DiffRow | null;
  readonly removed: DiffRow[];
  readonly added: DiffRow[];
}

/** Lines that were removed and what was added in their place belong together. */
function groups(rows: readonly DiffRow[]): readonly Group[] {
  const found: Group[] = [];
  for (const row of rows) {
    const last = found.at(-1);
    if (row.kind === "removed") {
      if (last && !last.single && !last.added.length) last.removed.push(row);
      else found.push({ single: null, removed: [row], added: [] });
    } else if (row.kind === "added") {
      if (last && !last.single) last.added.push(row);
      else found.push({ single: null, removed: [], added: [row] });
    } else found.push({ single: row, removed: [], added: [] });
  }
  return found;
}

type Pair = readonly [DiffRow | null, DiffRow | null];
const PAIRED_MAX = 400;
const ALIKE_MIN = 0.35;

/** Which line was replaced by which: the most alike ones in order, or simply one after the other where there are many. */
function paired(removed: readonly DiffRow[], added: readonly DiffRow[]): readonly Pair[] {
  if (!removed.length || !added.length || removed.length === added.length || removed.length * added.length > PAIRED_MAX)
    return Array.from({ length: Math.max(removed.length, added.length) }, (_, index): Pair => [removed[index] ?? null, added[index] ?? null]);
  const width = added.length + 1;
  const best = new Float64Array((removed.length + 1) * width);
  const at = (row: number, column: number) => best[row * width + column]!;
  const joined = (row: number, column: number) => likeness(removed[row]!.text, added[column]!.text) + at(row + 1, column + 1);
  for (let row = removed.length - 1; row >= 0; row--)
    for (let column = added.length - 1; column >= 0; column--)
      best[row * width + column] = Math.max(at(row + 1, column), at(row, column + 1), joined(row, column));
  const pairs: Pair[] = [];
  let [row, column] = [0, 0];
  while (row < removed.length && column < added.length) {
    if (at(row, column) === joined(row, column) && likeness(removed[row]!.text, added[column]!.text) > 0) pairs.push([removed[row++]!, added[column++]!]);
    else if (at(row, column) === at(row, column + 1)) pairs.push([null, added[column++]!]);
    else pairs.push([removed[row++]!, null]);
  }
  return [...pairs, ...removed.slice(row).map((left): Pair => [left, null]), ...added.slice(column).map((right): Pair => [null, right])];
}

/** How much two lines have in common at their beginnings and ends, from 0 to 1; 0 if it is too little. */
function likeness(left: string, right: string): number {
  const [one, other] = [left.trim(), right.trim()];
  const shorter = Math.min(one.length, other.length);
  let head = 0;
  while (head < shorter && one[head] === other[head]) head++;
  let tail = 0;
  while (tail < shorter - head && one.at(-1 - tail) === other.at(-1 - tail)) tail++;
  const alike = (head + tail) / Math.max(1, one.length, other.length);
  return alike >= ALIKE_MIN ? alike : 0;
}

/** Where changes begin: the first line of each stretch that is not the same. */
export function changeStarts(lines: readonly DiffLine[]): readonly number[] {
  const isChange = ({ place, left, right }: DiffLine) => !place && (left !== right || left?.kind !== "same");
  return lines.flatMap((one, index) => (isChange(one) && !(index && isChange(lines[index - 1]!)) ? [index] : []));
}
