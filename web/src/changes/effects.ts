/** What a revert does to a file, in words. */

import { countOf } from "./amounts.js";
import type { RevertedFile } from "./changes_api.js";

export function effectOf(file: RevertedFile): string {
  const lines = `${file.undoneLines === 1 ? "The line" : `The ${file.undoneLines} lines`} changed here ${file.undoneLines === 1 ? "goes" : "go"} back.`;
  const kept = file.kept.map(({ first, last }) => (first === last ? `${first}` : `${first}–${last}`));
  const stays = kept.length ? ` Other changes, in ${kept.length === 1 && !kept[0]!.includes("–") ? "line" : "lines"} ${kept.join(", ")}, are kept.` : "";
  switch (file.action) {
    case "refuse":
      return `Cannot be reverted: ${file.reason}.`;
    case "delete":
      return `The file is deleted: it was made here (${countOf(file.undoneLines, "line")}).`;
    case "create":
      return `The file is made again (${countOf(file.undoneLines, "line")}).`;
    case "move":
      return `The file is ${file.movedTo} again.${file.undoneLines ? ` ${lines}` : ""}${stays}`;
    case "change":
      return lines + stays;
  }
}
