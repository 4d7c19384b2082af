import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { ChangeLetter, DeltaOf, FilePath } from "./amounts.js";
import type { ChangedFile } from "./changes_api.js";
import type { Seen } from "./stored.js";

interface FileListProps {
  readonly files: readonly ChangedFile[];
  readonly current: string;
  readonly seen: Seen;
  readonly onOpen: (path: string) => void;
}

export function FileList({ files, current, seen, onOpen }: FileListProps) {
  return (
    <ul className="changes-files" aria-label="Changed files">
      {files.map((file) => (
        <li key={file.path}>
          <button type="button" className="changes-file" aria-current={file.path === current || undefined} onClick={() => onOpen(file.path)}>
            <ChangeLetter file={file} />
            <FilePath path={inOneLine(file.path, "code")} />
            {seen.has(file) && (
              <span className="good" role="img" aria-label="Seen">
                <Icon name="check" />
              </span>
            )}
            <FileMarks file={file} />
            <span className="changes-push">
              <DeltaOf file={file} />
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** What is to be known of a file before it is opened. */
export function FileMarks({ file, hasTime = false }: { file: ChangedFile; hasTime?: boolean }) {
  if (file.isReverted) return <span className="changes-chip">reverted</span>;
  if (file.alsoChangedMs === null) return null;
  const words = file.alsoChangedBy === "you" ? "you changed it too" : "changed since";
  const time = hasTime ? `, ${new Date(file.alsoChangedMs).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}` : "";
  return (
    <span className="changes-chip" data-warns title={words}>
      <Icon name="warning" />
      {words}
      {time}
    </span>
  );
}
