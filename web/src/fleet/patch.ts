/** A unified diff as the rows that a table of changes shows. Whatever it contains, it is only text. */

import type { DiffRow } from "../changes/changes_api.js";

export interface PatchFile {
  readonly path: string;
  readonly change: "M" | "A" | "D" | "R";
  readonly added: number;
  readonly removed: number;
  readonly rows: readonly DiffRow[];
  readonly isBinary: boolean;
}

interface Draft {
  path: string;
  change: PatchFile["change"];
  added: number;
  removed: number;
  rows: DiffRow[];
  isBinary: boolean;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;

export function filesOfPatch(patch: string): readonly PatchFile[] {
  const files: Draft[] = [];
  let file: Draft | null = null;
  let [oldLine, newLine, oldLeft, newLeft] = [0, 0, 0, 0];
  for (const line of patch.split("\n")) {
    if (file && (oldLeft > 0 || newLeft > 0)) {
      const [kind, text] = [line[0] ?? " ", line.slice(1)];
      if (kind === "-") {
        file.rows.push({ kind: "removed", text, old: oldLine++ });
        file.removed += 1;
        oldLeft -= 1;
      } else if (kind === "+") {
        file.rows.push({ kind: "added", text, new: newLine++ });
        file.added += 1;
        newLeft -= 1;
      } else if (kind !== "\\") {
        file.rows.push({ kind: "same", text, old: oldLine++, new: newLine++ });
        oldLeft -= 1;
        newLeft -= 1;
      }
      continue;
    }
    if (line.startsWith("diff --git ")) {
      file = { path: pathOf(line.slice("diff --git ".length)), change: "M", added: 0, removed: 0, rows: [], isBinary: false };
      files.push(file);
      continue;
    }
    if (!file) continue;
    const hunk = HUNK.exec(line);
    if (hunk) {
      [oldLine, newLine] = [Number(hunk[1]), Number(hunk[3])];
      [oldLeft, newLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      file.rows.push({ kind: "place", text: hunk[5] ?? "", new: newLine });
    } else head(file, line);
  }
  return files;
}

function head(file: Draft, line: string): void {
  if (line.startsWith("new file")) file.change = "A";
  else if (line.startsWith("deleted file")) file.change = "D";
  else if (line.startsWith("rename to ")) [file.change, file.path] = ["R", line.slice("rename to ".length)];
  else if (line.startsWith("+++ b/")) file.path = line.slice("+++ b/".length);
  else if (line.startsWith("Binary files") || line.startsWith("GIT binary patch")) file.isBinary = true;
}

/** “a/x b/x”: both are the same unless it was renamed, which a later line shows. */
function pathOf(names: string): string {
  const middle = Math.floor(names.length / 2);
  return names.slice(middle + 1).replace(/^b\//, "");
}
