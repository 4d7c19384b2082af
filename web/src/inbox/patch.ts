/** A unified patch as numbered lines, and which of them belong together. Pure. */

export interface PatchLine {
  readonly kind: "same" | "added" | "removed" | "place";
  readonly before: number | null;
  readonly after: number | null;
  readonly text: string;
}

const PLACE = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;
/** Somewhere in the file: what is asked for does not say where. */
const SOMEWHERE = "@@ … @@";

/** `patch`: from its first hunk on. Every line that would be written is in it, whatever it looks like. */
export function numberedLines(patch: string): readonly PatchLine[] {
  const lines: PatchLine[] = [];
  let [before, after]: [number | null, number | null] = [1, 1];
  const next = (number: number | null) => (number === null ? null : number + 1);
  for (const line of patch.replace(/\n$/, "").split("\n")) {
    const place = PLACE.exec(line);
    if (place) {
      [before, after] = [Number(place[1]), Number(place[2])];
      lines.push({ kind: "place", before: null, after: null, text: place[3] || `Line ${Math.max(before, after)}` });
    } else if (line === SOMEWHERE) {
      [before, after] = [null, null];
      lines.push({ kind: "place", before: null, after: null, text: "…" });
    } else if (line.startsWith("+")) {
      lines.push({ kind: "added", before: null, after, text: line.slice(1) });
      after = next(after);
    } else if (line.startsWith("-")) {
      lines.push({ kind: "removed", before, after: null, text: line.slice(1) });
      before = next(before);
    } else if (!line.startsWith("\\ No newline")) {
      lines.push({ kind: "same", before, after, text: line.replace(/^ /, "") });
      [before, after] = [next(before), next(after)];
    }
  }
  return lines;
}

/** The line that each changed line replaced, or was replaced by, where as many go as come. */
export function partnersOf(lines: readonly PatchLine[]): ReadonlyMap<PatchLine, string> {
  const partners = new Map<PatchLine, string>();
  let at = 0;
  const stretch = (kind: PatchLine["kind"]) => {
    const from = at;
    while (lines[at]?.kind === kind) at++;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const [removed, added] = [stretch("removed"), stretch("added")];
    if (!removed.length && !added.length) at++;
    if (removed.length !== added.length) continue;
    removed.forEach((line, index) => {
      partners.set(line, added[index]!.text);
      partners.set(added[index]!, line.text);
    });
  }
  return partners;
}

/** Whether nothing of what the file was stays. */
export function replacesAll(lines: readonly PatchLine[], hiddenLines: number): boolean {
  const places = lines.filter(({ kind }) => kind === "place").length;
  const first = lines.find(({ kind }) => kind === "removed");
  return !hiddenLines && places <= 1 && first?.before === 1 && !lines.some(({ kind }) => kind === "same");
}
