/** What a review knows: the list of its scope, the file that is looked at, and what was just done. */

import { useEffect, useRef, useState, type RefObject } from "react";
import { changesApi, type ChangedFile, type ChangeList } from "./changes_api.js";
import type { FileWish } from "./file_section.js";
import { wordsOf } from "./revert_notice.js";
import { useDiffChoice, useSeen, type DiffChoice, type Seen } from "./stored.js";
import { useChanges } from "./use_changes.js";

export interface ReviewState {
  readonly scope: string;
  readonly setScope: (scope: string) => void;
  readonly list: ChangeList | null;
  readonly problem: string;
  readonly files: readonly ChangedFile[];
  readonly current: ChangedFile | null;
  readonly open: (path: string) => void;
  readonly move: (step: 1 | -1) => void;
  readonly wish: FileWish | null;
  readonly ask: (kind: FileWish["kind"], line?: number) => void;
  readonly seen: Seen;
  readonly isSplit: boolean;
  readonly isWrapped: boolean;
  readonly ignoresSpaces: boolean;
  readonly choose: (change: Partial<DiffChoice>) => void;
  readonly done: { readonly text: string; readonly undoId: string } | null;
  readonly setDone: (text: string, undoId?: string) => void;
  readonly undo: () => void;
  readonly reload: () => void;
}

const NO_FILES: readonly ChangedFile[] = [];

interface FirstShown {
  readonly scope: string;
  readonly file: string;
  readonly line: number;
}

/** `isWide`: two sides fit, unless something else was chosen. */
export function useReview(sessionId: string, revision: string, first: FirstShown, isWide: boolean): ReviewState {
  const [scope, setScope] = useState(first.scope || "conversation");
  const { list, problem, reload } = useChanges(sessionId, scope, revision);
  const [path, setPath] = useState(first.file);
  const [wish, setWish] = useState<FileWish | null>(first.line ? { kind: "line", count: 1, line: first.line } : null);
  const [done, setDone] = useState<ReviewState["done"]>(null);
  const seen = useSeen(sessionId);
  const [choice, choose] = useDiffChoice();
  const count = useRef(1);
  const files = list?.files ?? NO_FILES;
  const current = files.find((file) => file.path === path) ?? files.find((file) => !file.isGenerated) ?? files[0] ?? null;
  const move = (step: 1 | -1) => {
    const next = files[files.findIndex((file) => file === current) + step];
    if (next) setPath(next.path);
  };
  const undo = () => {
    if (!done?.undoId) return;
    changesApi.undo(sessionId, done.undoId).then(
      ({ paths }) => (setDone({ text: `${paths.join(", ")}: as before the revert.`, undoId: "" }), reload()),
      (error: unknown) => setDone({ text: wordsOf(error), undoId: "" }),
    );
  };
  return {
    scope,
    setScope,
    list,
    problem,
    files,
    current,
    open: setPath,
    move,
    wish,
    ask: (kind, line) => setWish({ kind, count: ++count.current, ...(line !== undefined && { line }) }),
    seen,
    isSplit: choice.isSplit ?? isWide,
    isWrapped: choice.isWrapped,
    ignoresSpaces: choice.ignoresSpaces,
    choose,
    done,
    setDone: (text, undoId = "") => (setDone(text ? { text, undoId } : null), reload()),
    undo,
    reload,
  };
}

/** Keys of a review: they come before those of the page. Beside a conversation most belong to it, unless the focus is here. */
export function useReviewKeys(review: ReviewState, onBack: () => void, onWide: () => void, place?: RefObject<HTMLElement | null>): void {
  const latest = useRef({ review, onBack, onWide });
  latest.current = { review, onBack, onWide };
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.target instanceof HTMLElement && event.target.matches("textarea, select, input:not([type=checkbox]), [contenteditable]")) return;
      if (place?.current && !place.current.contains(event.target as Node) && event.key !== "d") return;
      const act = actionFor(event.key, latest.current);
      if (!act) return;
      event.preventDefault();
      event.stopPropagation();
      act();
    };
    window.addEventListener("keydown", onKeyDown, { capture: true });
    return () => window.removeEventListener("keydown", onKeyDown, { capture: true });
  }, [place]);
}

interface Latest {
  readonly review: ReviewState;
  readonly onBack: () => void;
  readonly onWide: () => void;
}

function actionFor(key: string, { review, onBack, onWide }: Latest): (() => void) | undefined {
  const { current } = review;
  const table: { readonly [key: string]: () => void } = {
    j: () => review.move(1),
    k: () => review.move(-1),
    "]": () => review.ask("next"),
    "[": () => review.ask("previous"),
    v: () => current && review.seen.toggle(current),
    m: () => review.ask("note"),
    r: () => review.ask("revert"),
    "|": () => review.choose({ isSplit: !review.isSplit }),
    s: () => review.choose({ ignoresSpaces: !review.ignoresSpaces }),
    w: () => review.choose({ isWrapped: !review.isWrapped }),
    d: onWide,
    Escape: onBack,
  };
  return Object.hasOwn(table, key) ? table[key] : undefined;
}
