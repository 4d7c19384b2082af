/** The files that go with the next message: chosen, pasted or dropped. */

import { useCallback, useMemo, useRef, useState, type ClipboardEvent, type DragEvent } from "react";
import type { Attachment } from "../../client/src/index.js";
import { ALL_BYTES_MAX, megabytes, readAttachment, sizeOf } from "./reading.js";

export interface ChosenFiles {
  readonly files: readonly Attachment[];
  readonly problem: string;
  readonly add: (files: Iterable<File>) => Promise<void>;
  readonly remove: (file: Attachment) => void;
  readonly replace: (files: readonly Attachment[]) => void;
  /** All of them, to be sent: none is left. */
  readonly take: () => readonly Attachment[];
  /** For the element onto which they may be dropped, or into which they may be pasted. */
  readonly target: {
    readonly onPaste: (event: ClipboardEvent) => void;
    readonly onDragOver: (event: DragEvent) => void;
    readonly onDrop: (event: DragEvent) => void;
  };
}

export function useChosenFiles(): ChosenFiles {
  const [files, setFiles] = useState<readonly Attachment[]>([]);
  const [problem, setProblem] = useState("");
  const latest = useRef(files);
  const replace = useCallback((chosen: readonly Attachment[]) => {
    latest.current = chosen;
    setFiles(chosen);
    setProblem("");
  }, []);
  const add = useCallback(
    async (chosen: Iterable<File>) => {
      const problems: string[] = [];
      for (const file of chosen)
        try {
          const read = await readAttachment(file);
          const all = [...latest.current, read];
          if (all.reduce((sum, one) => sum + sizeOf(one), 0) > ALL_BYTES_MAX)
            throw new Error(`${file.name} does not fit: a message takes ${megabytes(ALL_BYTES_MAX)} in all.`);
          replace(all);
        } catch (error) {
          problems.push((error as Error).message);
        }
      setProblem(problems.join(" "));
    },
    [replace],
  );
  const remove = useCallback((file: Attachment) => replace(latest.current.filter((one) => one !== file)), [replace]);
  const take = useCallback(() => {
    const taken = latest.current;
    replace([]);
    return taken;
  }, [replace]);
  const target = useMemo(
    () => ({
      onPaste: (event: ClipboardEvent) => takeFrom(event, event.clipboardData, add),
      onDragOver: (event: DragEvent) => event.dataTransfer.types.includes("Files") && event.preventDefault(),
      onDrop: (event: DragEvent) => takeFrom(event, event.dataTransfer, add),
    }),
    [add],
  );
  return { files, problem, add, remove, replace, take, target };
}

function takeFrom(event: { preventDefault(): void }, given: DataTransfer, add: ChosenFiles["add"]): void {
  if (!given.files.length) return;
  event.preventDefault();
  void add([...given.files]);
}
