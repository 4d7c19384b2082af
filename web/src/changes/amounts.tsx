import type { ChangedFile } from "./changes_api.js";

interface DeltaProps {
  readonly added: number;
  readonly removed: number;
  /** Not all lines are known: at least so many. */
  readonly isAtLeast?: boolean;
}

export function Delta({ added, removed, isAtLeast = false }: DeltaProps) {
  return (
    <span className="changes-delta" aria-label={`${isAtLeast ? "at least " : ""}${added} added, ${removed} removed`} role="img">
      {isAtLeast && <span className="faint">≥</span>}
      {added > 0 && <span className="changes-plus">+{added.toLocaleString("en")}</span>}
      {removed > 0 && <span className="changes-minus">−{removed.toLocaleString("en")}</span>}
    </span>
  );
}

export function DeltaOf({ file }: { file: ChangedFile }) {
  return <Delta added={file.added} removed={file.removed} isAtLeast={!file.isCountComplete} />;
}

/** The folder is quiet, the name is not. */
export function FilePath({ path }: { path: string }) {
  const cut = path.lastIndexOf("/") + 1;
  return (
    <code className="clipped changes-path" title={path}>
      <i>{path.slice(0, cut)}</i>
      {path.slice(cut)}
    </code>
  );
}

export const CHANGE_WORDS = { M: "modified", A: "added", D: "deleted", R: "renamed" } as const;

export function ChangeLetter({ file }: { file: ChangedFile }) {
  return (
    <span className="changes-letter" data-change={file.change} title={CHANGE_WORDS[file.change]}>
      <span aria-hidden="true">{file.change}</span>
      <span className="unseen">{CHANGE_WORDS[file.change]} </span>
    </span>
  );
}

export const countOf = (count: number, one: string) => `${count} ${one}${count === 1 ? "" : "s"}`;
