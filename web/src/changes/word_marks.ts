/** Which words of a line differ from the line that it replaced. */

export interface MarkedRange {
  readonly start: number;
  readonly end: number;
}

export interface WordMarks {
  readonly old: readonly MarkedRange[];
  readonly new: readonly MarkedRange[];
}

/** Longer lines are not compared: they are not read word by word. */
export const MARKED_MAX = 2_000;
const COMPARISONS_MAX = 250_000;
/** Lines that share less than this have nothing to do with each other. */
const SHARED_MIN = 0.3;
const NONE: WordMarks = { old: [], new: [] };
const WORDS = /[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;

export function wordMarks(before: string, after: string): WordMarks {
  if (before.length > MARKED_MAX || after.length > MARKED_MAX) return NONE;
  const left = before.match(WORDS) ?? [];
  const right = after.match(WORDS) ?? [];
  if (left.length * right.length > COMPARISONS_MAX) return NONE;
  const [keptLeft, keptRight] = common(left, right);
  const shared = sharedLength(left, keptLeft);
  if (shared < SHARED_MIN * Math.min(before.trim().length, after.trim().length)) return NONE;
  return { old: rangesOf(left, keptLeft), new: rangesOf(right, keptRight) };
}

/** For each word whether it belongs to the longest series that both lines have. */
function common(left: readonly string[], right: readonly string[]): [Uint8Array, Uint8Array] {
  const width = right.length + 1;
  const longest = new Uint16Array((left.length + 1) * width);
  for (let row = left.length - 1; row >= 0; row--)
    for (let column = right.length - 1; column >= 0; column--)
      longest[row * width + column] =
        left[row] === right[column]
          ? longest[(row + 1) * width + column + 1]! + 1
          : Math.max(longest[(row + 1) * width + column]!, longest[row * width + column + 1]!);
  const kept: [Uint8Array, Uint8Array] = [new Uint8Array(left.length), new Uint8Array(right.length)];
  let [row, column] = [0, 0];
  while (row < left.length && column < right.length) {
    if (left[row] === right[column]) {
      kept[0][row++] = 1;
      kept[1][column++] = 1;
    } else if (longest[(row + 1) * width + column]! >= longest[row * width + column + 1]!) row++;
    else column++;
  }
  return kept;
}

function sharedLength(words: readonly string[], kept: Uint8Array): number {
  return words.reduce((sum, word, index) => sum + (kept[index] && word.trim() ? word.length : 0), 0);
}

function rangesOf(words: readonly string[], kept: Uint8Array): readonly MarkedRange[] {
  const ranges: { start: number; end: number }[] = [];
  let at = 0;
  words.forEach((word, index) => {
    const end = at + word.length;
    if (!kept[index]) {
      const last = ranges.at(-1);
      if (last?.end === at) last.end = end;
      else ranges.push({ start: at, end });
    }
    at = end;
  });
  return ranges;
}
