/** What changed between two texts, line by line. */

export interface DiffLine {
  readonly kind: "same" | "added" | "removed" | "place";
  readonly text: string;
}

/** Above this many comparisons the shortest diff is not worth the wait: all out, all in. */
const COMPARISONS_MAX = 4_000_000;

export function lineDiff(before: string, after: string): readonly DiffLine[] {
  const left = linesOf(before);
  const right = linesOf(after);
  let head = 0;
  while (head < left.length && head < right.length && left[head] === right[head]) head++;
  let tail = 0;
  while (tail < left.length - head && tail < right.length - head && left.at(-1 - tail) === right.at(-1 - tail)) tail++;
  const same = (text: string): DiffLine => ({ kind: "same", text });
  return [
    ...left.slice(0, head).map(same),
    ...middle(left.slice(head, left.length - tail), right.slice(head, right.length - tail)),
    ...left.slice(left.length - tail).map(same),
  ];
}

function linesOf(text: string): readonly string[] {
  if (!text) return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function middle(left: readonly string[], right: readonly string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ kind: "removed", text });
  const added = (text: string): DiffLine => ({ kind: "added", text });
  if (!left.length || !right.length || left.length * right.length > COMPARISONS_MAX)
    return [...left.map(removed), ...right.map(added)];
  const width = right.length + 1;
  const longest = new Uint32Array((left.length + 1) * width);
  for (let row = left.length - 1; row >= 0; row--)
    for (let column = right.length - 1; column >= 0; column--)
      longest[row * width + column] =
        left[row] === right[column]
          ? longest[(row + 1) * width + column + 1]! + 1
          : Math.max(longest[(row + 1) * width + column]!, longest[row * width + column + 1]!);
  const lines: DiffLine[] = [];
  let [row, column] = [0, 0];
  while (row < left.length && column < right.length) {
    if (left[row] === right[column]) {
      lines.push({ kind: "same", text: left[row]! });
      row++;
      column++;
    } else if (longest[(row + 1) * width + column]! >= longest[row * width + column + 1]!) lines.push(removed(left[row++]!));
    else lines.push(added(right[column++]!));
  }
  return [...lines, ...left.slice(row).map(removed), ...right.slice(column).map(added)];
}

const CONTEXT_LINES = 3;

/** The same without what is far from any change. */
export function withoutDistantLines(lines: readonly DiffLine[]): readonly DiffLine[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.kind === "same") return;
    near.fill(1, Math.max(0, index - CONTEXT_LINES), index + CONTEXT_LINES + 1);
  });
  const kept: DiffLine[] = [];
  let skipped = 0;
  lines.forEach((line, index) => {
    if (near[index]) {
      if (skipped) kept.push({ kind: "place", text: `${skipped} unchanged ${skipped === 1 ? "line" : "lines"}` });
      skipped = 0;
      kept.push(line);
    } else skipped++;
  });
  return kept;
}

const PATCH_START = /^(?:diff --git |--- |\*\*\* (?:Begin Patch|Add File|Update File|Delete File)|@@ )/m;

export function isPatch(text: string): boolean {
  return PATCH_START.test(text) && /^[+-]/m.test(text);
}

/** A patch as it was written (unified, or between `*** Begin Patch` and `*** End Patch`). */
export function patchLines(patch: string): readonly DiffLine[] {
  return linesOf(patch).flatMap((line): DiffLine[] => {
    if (/^\*\*\* (?:Begin|End) Patch/.test(line) || /^(?:index |\\ No newline)/.test(line)) return [];
    if (/^(?:@@|diff --git|--- |\+\+\+ |\*\*\* )/.test(line)) return [{ kind: "place", text: line.replace(/^\*\*\* /, "") }];
    if (line.startsWith("+")) return [{ kind: "added", text: line.slice(1) }];
    if (line.startsWith("-")) return [{ kind: "removed", text: line.slice(1) }];
    return [{ kind: "same", text: line.replace(/^ /, "") }];
  });
}
