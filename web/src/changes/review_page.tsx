/** The whole width for changes: files and turns on the left, all diffs in the middle, the commit on the right. */

import { useEffect, useRef, useState, type RefObject } from "react";
import { Icon } from "../shell/icon.js";
import { useNarrow } from "../shell/media.js";
import { inOneLine } from "../text/unseen.js";
import { countOf, Delta } from "./amounts.js";
import type { ChangesProps } from "./changes_panel.js";
import { CommitDialog, CommitForm } from "./commit_form.js";
import { FileList } from "./file_list.js";
import { FileSection } from "./file_section.js";
import { DoneNotice, RevertNotice, type RevertTarget } from "./revert_notice.js";
import { ScopeList, ScopeSelect } from "./scopes.js";
import { SplitChoice } from "./split_choice.js";
import { useReview, useReviewKeys, type ReviewState } from "./use_review.js";
import "./changes.css";
import "./review.css";

const SPLIT_MIN_PX = 1100;
const KEYS = [
  ["j k", "file"],
  ["] [", "change"],
  ["v", "seen"],
  ["m", "note on line"],
  ["r", "revert file…"],
  ["w", "wrap"],
  ["s", "ignore spaces"],
  ["|", "side by side"],
  ["Esc", "back"],
] as const;

interface ReviewPageProps extends ChangesProps {
  readonly title: string;
  /** What is looked at, for the address. */
  readonly onPlace: (place: { readonly scope: string; readonly file: string }) => void;
}

export default function ReviewPage(props: ReviewPageProps) {
  const { sessionId, revision, first, onClose, onPlace } = props;
  const review = useReview(sessionId, revision, first, window.innerWidth >= SPLIT_MIN_PX);
  const isNarrow = useNarrow();
  const place = { scope: review.scope, file: review.current?.path ?? "" };
  useReviewKeys(review, onClose, onClose);
  useEffect(() => onPlace(place), [place.scope, place.file]);
  return isNarrow ? <NarrowReview {...props} review={review} /> : <WideReview {...props} review={review} />;
}

interface ShownProps extends ReviewPageProps {
  readonly review: ReviewState;
}

function WideReview(props: ShownProps) {
  const { review, title, onClose, sessionId } = props;
  const { list, scope, isSplit, isWrapped } = review;
  const scroller = useRef<HTMLDivElement>(null);
  const [target, setTarget] = useState<RevertTarget | null>(null);
  const [isCommitting, setCommitting] = useState(true);
  const turn = list?.turns.find(({ id }) => scope === `turn:${id}`);
  const seenCount = review.files.filter((file) => review.seen.has(file)).length;
  useScrollToFile(review, scroller);
  return (
    <div className="changes-review">
      <aside className="changes-side" aria-label="Files">
        <button type="button" className="quiet changes-back" onClick={onClose}>
          <Icon name="back" /> Conversation <kbd>Esc</kbd>
        </button>
        <div className="changes-side-scroll" tabIndex={0} role="group" aria-label="Changed files and turns">
          <h2>
            {countOf(review.files.length, "file")} <span className="faint">· {seenCount} seen</span>
          </h2>
          <FileList files={review.files} current={review.current?.path ?? ""} seen={review.seen} onOpen={review.open} />
          {list && <ScopeList list={list} scope={scope} onChoose={review.setScope} />}
        </div>
      </aside>
      <div className="changes-main">
        <header className="changes-bar">
          <div className="changes-grow">
            <h1 className="clipped">Review: {inOneLine(title)}</h1>
            <p className="faint small clipped">{list && factsOf(list)}</p>
          </div>
          <SplitChoice review={review} />
          <button type="button" className="quiet" aria-pressed={isWrapped} onClick={() => review.choose({ isWrapped: !isWrapped })}>
            Wrap
          </button>
          {turn && (
            <button type="button" className="button" onClick={() => setTarget({ scope, paths: [], name: `turn ${turn.number}` })}>
              <Icon name="undo" /> Revert turn…
            </button>
          )}
          {list?.git && (
            <button type="button" className="quiet" aria-pressed={isCommitting} onClick={() => setCommitting(!isCommitting)}>
              <Icon name="commit" /> Commit
            </button>
          )}
        </header>
        <div className="changes-body">
          <div className="changes-column">
            <Notices {...props} target={target} onTarget={setTarget} />
            <div ref={scroller} className="changes-scroll" tabIndex={0} role="group" aria-label="Diffs">
              {review.files.map((file) => (
                <Section key={`${scope} ${file.path}`} {...props} file={file} isSplit={isSplit} scroller={scroller} />
              ))}
            </div>
          </div>
          {list?.git && isCommitting && (
            <aside className="changes-commit-side" aria-label="Commit">
              <h2>Commit</h2>
              <CommitForm key={`${scope} ${review.files.map(({ path }) => path).join("\n")}`} sessionId={sessionId} list={list} onDone={review.setDone} />
            </aside>
          )}
        </div>
        <footer className="changes-keys" aria-label="Keys">
          {KEYS.map(([keys, what]) => (
            <span key={what}>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}{" "}
              {what}
            </span>
          ))}
        </footer>
      </div>
    </div>
  );
}

function factsOf({ git, root, isRunning }: NonNullable<ReviewState["list"]>): string {
  return [git?.branch ? `branch ${git.branch}` : root, git?.base ? `from ${git.base}` : "", isRunning ? "the agent still runs" : ""].filter(Boolean).join(" · ");
}

interface NoticesProps extends ShownProps {
  readonly target: RevertTarget | null;
  readonly onTarget: (target: RevertTarget | null) => void;
}

function Notices({ review, sessionId, target, onTarget }: NoticesProps) {
  const { list, done } = review;
  return (
    <>
      {done && <DoneNotice text={done.text} onUndo={done.undoId ? review.undo : null} onClose={() => review.setDone("")} />}
      {review.problem && !list && <p className="changes-note">{inOneLine(review.problem)}</p>}
      {list && !list.files.length && <p className="changes-note faint">No files were changed here.</p>}
      {target && (
        <RevertNotice
          sessionId={sessionId}
          target={target}
          onCancel={() => onTarget(null)}
          onDone={(undoId, files) => (onTarget(null), review.setDone(`${countOf(files.length, "file")} of ${target.name} reverted.`, undoId))}
        />
      )}
    </>
  );
}

interface SectionProps extends ShownProps {
  readonly file: ReviewState["files"][number];
  readonly isSplit: boolean;
  readonly scroller: RefObject<HTMLElement | null>;
}

function Section({ review, sessionId, file, isSplit, scroller, onNote }: SectionProps) {
  return (
    <FileSection
      sessionId={sessionId}
      root={review.list?.root ?? ""}
      scope={review.scope}
      file={file}
      isSplit={isSplit}
      isWrapped={review.isWrapped}
      ignoresSpaces={review.ignoresSpaces}
      isCurrent={file === review.current}
      seen={review.seen}
      scroller={scroller}
      wish={file === review.current ? review.wish : null}
      onCurrent={() => review.open(file.path)}
      onReverted={(undoId) => review.setDone(`${file.path} was reverted.`, undoId)}
      onNote={onNote}
    />
  );
}

/** The file that is looked at is brought to the top, unless it is there or was clicked in the diff. */
function useScrollToFile({ current }: ReviewState, scroller: RefObject<HTMLElement | null>): void {
  const path = current?.path ?? "";
  useEffect(() => {
    const section = [...(scroller.current?.children ?? [])].find((child) => (child as HTMLElement).dataset["path"] === path);
    if (!section || !scroller.current) return;
    const screen = scroller.current.getBoundingClientRect();
    const { top, bottom } = section.getBoundingClientRect();
    if (top > screen.top + screen.height / 2 || bottom < screen.top + 60 || top < screen.top - 40) section.scrollIntoView({ block: "start" });
  }, [path, scroller]);
}

function NarrowReview(props: ShownProps) {
  const { review, sessionId, onClose } = props;
  const { list, current, files } = review;
  const scroller = useRef<HTMLDivElement>(null);
  const [target, setTarget] = useState<RevertTarget | null>(null);
  const [isCommitting, setCommitting] = useState(false);
  const index = current ? files.indexOf(current) : -1;
  const onward = () => {
    if (!current) return;
    review.seen.toggle(current, true);
    review.move(1);
  };
  return (
    <div className="changes-narrow">
      <header className="changes-bar">
        <button type="button" className="quiet round" onClick={onClose} aria-label="Back to the conversation">
          <Icon name="back" />
        </button>
        <div className="changes-grow">
          <h1>Changes</h1>
          <p className="faint small changes-row">
            {list && countOf(files.length, "file")}
            {list && <Delta added={list.added} removed={list.removed} isAtLeast={!list.isCountComplete} />}
          </p>
        </div>
        {list && <ScopeSelect list={list} scope={review.scope} onChoose={review.setScope} />}
      </header>
      {files.length > 0 && (
        <div className="changes-picker">
          <button type="button" className="quiet round" disabled={index <= 0} onClick={() => review.move(-1)} aria-label="Previous file">
            <Icon name="back" />
          </button>
          <select value={current?.path ?? ""} aria-label="File" onChange={(event) => review.open(event.target.value)}>
            {files.map((file) => (
              <option key={file.path} value={file.path}>
                {file.change} {inOneLine(file.path, "code")} +{file.added} −{file.removed}
              </option>
            ))}
          </select>
          <button type="button" className="quiet round" disabled={index < 0 || index >= files.length - 1} onClick={() => review.move(1)} aria-label="Next file">
            <Icon name="chevron" />
          </button>
        </div>
      )}
      <Notices {...props} target={target} onTarget={setTarget} />
      <div ref={scroller} className="changes-scroll" tabIndex={0} role="group" aria-label="Diff">
        {current && <Section key={`${review.scope} ${current.path}`} {...props} file={current} isSplit={false} scroller={scroller} />}
      </div>
      {current && (
        <footer className="changes-thumb">
          <button type="button" className="button" disabled={!current.canRevert} title={current.whyNot} onClick={() => setTarget({ scope: review.scope, paths: [current.path], name: "file" })}>
            <Icon name="undo" /> Revert…
          </button>
          <button type="button" className="button" onClick={onward}>
            <Icon name="check" /> {index < files.length - 1 ? "Seen, next file" : "Seen"}
          </button>
          {list?.git && (
            <button type="button" className="button primary" onClick={() => setCommitting(true)}>
              Commit…
            </button>
          )}
        </footer>
      )}
      {isCommitting && list && (
        <CommitDialog sessionId={sessionId} list={list} onClose={() => setCommitting(false)} onDone={(text) => (setCommitting(false), review.setDone(text))} />
      )}
    </div>
  );
}
