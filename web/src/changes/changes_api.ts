/** What a conversation changed, as the server sends it: see “Changes” in `docs/protocol.md`. */

import { request, sessionPath } from "../api.js";

export interface ChangedFile {
  readonly path: string;
  readonly oldPath: string;
  readonly change: "M" | "A" | "D" | "R";
  readonly added: number;
  readonly removed: number;
  readonly isCountComplete: boolean;
  readonly turns: readonly string[];
  readonly source: "log" | "git";
  readonly hasBefore: boolean;
  readonly isGenerated: boolean;
  readonly isBinary: boolean;
  readonly isReverted: boolean;
  readonly alsoChangedMs: number | null;
  readonly alsoChangedBy: "" | "you" | "unknown";
  readonly canRevert: boolean;
  readonly whyNot: string;
  readonly digest: string;
}

export interface ChangedTurn {
  readonly id: string;
  readonly number: number;
  readonly title: string;
  readonly files: number;
  readonly added: number;
  readonly removed: number;
}

export interface ChangeList {
  readonly scope: string;
  readonly root: string;
  readonly files: readonly ChangedFile[];
  readonly added: number;
  readonly removed: number;
  readonly isCountComplete: boolean;
  readonly turns: readonly ChangedTurn[];
  readonly git: { readonly branch: string; readonly head: string; readonly base: string; readonly hasHooks: boolean } | null;
  readonly whyNoGit: string;
  /** Files that are not committed and that no edit of the conversation wrote: commands may have changed them. */
  readonly moreFiles?: number;
  readonly isRunning: boolean;
  readonly proposedMessage: string;
}

export interface DiffRow {
  readonly kind: "same" | "added" | "removed" | "place";
  readonly text: string;
  readonly old?: number;
  readonly new?: number;
  readonly skipped?: number;
}

export interface FileDiff {
  readonly file: ChangedFile;
  readonly rows: readonly DiffRow[];
  readonly first: number;
  readonly total: number;
  readonly note: string;
  readonly pictures: { readonly before: string; readonly after: string } | null;
}

/** A file as it is now. */
export interface FileText {
  readonly path: string;
  readonly root: string;
  readonly lines: readonly string[];
  readonly total: number;
  readonly note: string;
  readonly picture: string;
}

export interface RevertedFile {
  readonly path: string;
  readonly action: "change" | "delete" | "create" | "move" | "refuse";
  readonly movedTo: string;
  readonly reason: string;
  readonly undoneLines: number;
  readonly kept: readonly { readonly first: number; readonly last: number }[];
  readonly digest: string;
}

export interface RevertAnswer {
  readonly files: readonly RevertedFile[];
  readonly undoId: string;
}

export interface UndoableTurn {
  readonly id: string;
  readonly number: number;
  readonly title: string;
  readonly files: number;
  readonly state: "undoable" | "undone" | "unchanged" | "not recorded";
}

export interface UndoFile {
  readonly path: string;
  readonly act: "back" | "create" | "remove" | "mode" | "merge" | "keep";
  readonly why: string;
  readonly lines: number;
  readonly mode: string;
}

export interface UndoAnswer {
  readonly files: readonly UndoFile[];
  readonly notCovered: readonly string[];
  readonly git: string;
  readonly digest: string;
  readonly isDone: boolean;
}

export interface WantedDiff {
  readonly scope: string;
  readonly path: string;
  readonly context: number;
  readonly ignoresSpaces: boolean;
}

const at = (id: string, what: string, query: Readonly<Record<string, string>> = {}) =>
  `${sessionPath(id)}/${what}${Object.keys(query).length ? `?${new URLSearchParams(query)}` : ""}`;

export const changesApi = {
  list: (id: string, scope: string, signal?: AbortSignal) => request<ChangeList>("GET", at(id, "changes", { scope }), undefined, signal),
  file: (id: string, wanted: WantedDiff, from: number, signal?: AbortSignal) => {
    const { scope, path, context, ignoresSpaces } = wanted;
    const query = { scope, path, from: String(from), lines: "5000", context: String(context), ...(ignoresSpaces && { spaces: "ignore" }) };
    return request<FileDiff>("GET", at(id, "changes/file", query), undefined, signal);
  },
  text: (id: string, path: string, from: number, signal?: AbortSignal) =>
    request<FileText>("GET", at(id, "file", { path, from: String(from), lines: "5000" }), undefined, signal),
  patch: (id: string, scope: string, paths: readonly string[]) => {
    const query = new URLSearchParams([["scope", scope], ...paths.map((path) => ["path", path] as [string, string])]);
    return request<{ patch: string; missing: readonly string[] }>("GET", `${at(id, "changes/patch")}?${query}`);
  },
  revert: (id: string, scope: string, paths: readonly string[], expect: Readonly<Record<string, string>>, dryRun: boolean) =>
    request<RevertAnswer>("POST", at(id, "revert"), { scope, paths, expect, dryRun }),
  undo: (id: string, undoId: string) => request<{ paths: readonly string[] }>("POST", at(id, "revert/undo"), { undoId }),
  turns: (id: string, signal?: AbortSignal) => request<{ turns: readonly UndoableTurn[] }>("GET", at(id, "undo"), undefined, signal),
  /** Without the digest of what was shown it is only planned. */
  undoTurn: (id: string, turn: string, expect: string | null) => request<UndoAnswer>("POST", at(id, "undo"), { turn, ...(expect !== null && { expect }) }),
  redoTurn: (id: string, expect: string | null) => request<UndoAnswer>("POST", at(id, "redo"), expect !== null ? { expect } : {}),
  commit: (id: string, paths: readonly string[], message: string, expectHead: string, expect: Readonly<Record<string, string>>) =>
    request<{ commit: string; branch: string; files: number; hooksSkipped: boolean }>("POST", at(id, "commit"), {
      paths,
      message,
      expectHead,
      expect,
    }),
};

export type ChangesApi = typeof changesApi;
