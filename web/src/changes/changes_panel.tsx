/** Beside the conversation: the files that it changed, and the diff of one of them. */

import { useEffect, useRef, useState } from "react";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { countOf, Delta } from "./amounts.js";
import { CommitDialog } from "./commit_form.js";
import { FileList } from "./file_list.js";
import { FileSection } from "./file_section.js";
import { DoneNotice, RevertNotice, type RevertTarget } from "./revert_notice.js";
import { ScopeSegments } from "./scopes.js";
import { SplitChoice } from "./split_choice.js";
import { TurnUndo } from "./turn_undo.js";
import { useReview, useReviewKeys } from "./use_review.js";
import "./changes.css";
import "./review.css";

export interface ChangesProps {
  readonly sessionId: string;
  /** Changes when the conversation may have changed a file. */
  readonly revision: string;
  readonly first: { readonly scope: string; readonly file: string; readonly line: number };
  readonly onClose: () => void;
  /** Sends a note to the agent; null: it takes no messages. */
  readonly onNote: ((text: string) => void) | null;
}

interface ChangesPanelProps extends ChangesProps {
  readonly onReview: (place: { readonly scope: string; readonly file: string }) => void;
}

export default function ChangesPanel(props: ChangesPanelProps) {
  const { sessionId, revision, first, onClose, onReview } = props;
  const review = useReview(sessionId, revision, first, false);
  const scroller = useRef<HTMLDivElement>(null);
  const panel = useRef<HTMLElement>(null);
  const [isCommitting, setCommitting] = useState(false);
  const [target, setTarget] = useState<RevertTarget | null>(null);
  const { list, current, scope, done } = review;
  const turn = list?.turns.find(({ id }) => scope === `turn:${id}`) ?? list?.turns.at(-1);
  const openReview = () => onReview({ scope, file: current?.path ?? "" });
  useReviewKeys(review, onClose, openReview, panel);
  useEffect(() => scroller.current?.focus({ preventScroll: true }), []);
  return (
    <aside ref={panel} className="changes-panel" aria-label="Changes">
      <header className="changes-head">
        <div className="changes-row">
          <h2>Changes</h2>
          {list && (
            <>
              <span className="faint">{countOf(list.files.length, "file")}</span>
              <Delta added={list.added} removed={list.removed} isAtLeast={!list.isCountComplete || !!list.moreFiles} />
            </>
          )}
          <span className="changes-push changes-row">
            <button type="button" className="quiet small" onClick={openReview}>
              <Icon name="wide" /> Review full width <kbd>d</kbd>
            </button>
            <button type="button" className="quiet round" onClick={onClose} aria-label="Close changes">
              <Icon name="close" />
            </button>
          </span>
        </div>
        {list && (
          <div className="changes-row">
            <ScopeSegments list={list} scope={scope} onChoose={review.setScope} />
            <span className="changes-push">
              <SplitChoice review={review} />
            </span>
          </div>
        )}
      </header>
      {done && <DoneNotice text={done.text} onUndo={done.undoId ? review.undo : null} onClose={() => review.setDone("")} />}
      {review.problem && !list && <p className="changes-note">{inOneLine(review.problem)}</p>}
      {list && !list.files.length && !list.moreFiles && <p className="changes-note faint">No files were changed{scope === "conversation" ? " in this conversation" : " here"}.</p>}
      {list && !!list.moreFiles && (
        <p className="changes-note">
          {countOf(list.files.length, "file")} by edits; {countOf(list.moreFiles, "more file")} {list.moreFiles === 1 ? "is" : "are"} not committed, which commands may have changed.{" "}
          <button type="button" className="link" onClick={() => review.setScope("uncommitted")}>
            Show
          </button>
        </p>
      )}
      <TurnUndo sessionId={sessionId} revision={revision} onDone={(text) => review.setDone(text)} />
      {list && list.files.length > 0 && <FileList files={list.files} current={current?.path ?? ""} seen={review.seen} onOpen={review.open} />}
      <div ref={scroller} className="changes-scroll" tabIndex={0} role="group" aria-label="Diff">
        {current && (
          <FileSection
            key={`${scope} ${current.path}`}
            sessionId={sessionId}
            root={list?.root ?? ""}
            scope={scope}
            file={current}
            isSplit={review.isSplit}
            isWrapped={review.isWrapped}
            ignoresSpaces={review.ignoresSpaces}
            isCurrent
            seen={review.seen}
            scroller={scroller}
            wish={review.wish}
            onCurrent={() => undefined}
            onReverted={(undoId) => review.setDone(`${current.path} was reverted.`, undoId)}
            onNote={props.onNote}
          />
        )}
      </div>
      {target && (
        <RevertNotice
          sessionId={sessionId}
          target={target}
          onCancel={() => setTarget(null)}
          onDone={(undoId, files) => (setTarget(null), review.setDone(`${countOf(files.length, "file")} of ${target.name} reverted.`, undoId))}
        />
      )}
      {list && list.files.length > 0 && (
        <footer className="changes-foot">
          <span className="faint small clipped">
            {scope === "uncommitted" ? "From git" : "From the log"}
            {list.git?.branch ? ` · branch ${inOneLine(list.git.branch, "code")}` : ""}
          </span>
          <span className="changes-push changes-row">
            {turn && (
              <button type="button" className="button" onClick={() => setTarget({ scope: `turn:${turn.id}`, paths: [], name: `turn ${turn.number}` })}>
                <Icon name="undo" /> Revert turn {turn.number}…
              </button>
            )}
            {list.git && (
              <button type="button" className="button primary" onClick={() => setCommitting(true)}>
                <Icon name="commit" /> Commit {countOf(list.files.length, "file")}…
              </button>
            )}
          </span>
        </footer>
      )}
      {isCommitting && list && (
        <CommitDialog sessionId={sessionId} list={list} onClose={() => setCommitting(false)} onDone={(text) => (setCommitting(false), review.setDone(text))} />
      )}
    </aside>
  );
}
