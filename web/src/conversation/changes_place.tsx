/** Where the changes of a conversation are shown. Their part of the page is loaded when it is first wanted. */

import { lazy, Suspense, useState } from "react";
import { ChangesButton } from "../changes/changes_button.js";
import type { ChangeList } from "../changes/changes_api.js";
import { noteShown, showChanges, type ChangesPlace } from "../changes/place.js";
import { addToDraft } from "../prompt/drafts.js";
import { useNarrow } from "../shell/media.js";

const ChangesPanel = lazy(() => import("../changes/changes_panel.js"));
const ReviewPage = lazy(() => import("../changes/review_page.js"));
const FilePage = lazy(() => import("../files/file_page.js"));

interface ChangesProps {
  readonly sessionId: string;
  readonly place: ChangesPlace;
  readonly revision: string;
  /** Of the whole conversation. */
  readonly list: ChangeList | null;
  readonly canNote: boolean;
}

export function ChangesToggle({ sessionId, place, list }: ChangesProps) {
  const isNarrow = useNarrow();
  const isOpen = place.kind !== "";
  const toggle = () => showChanges(sessionId, isOpen ? "" : isNarrow ? "review" : "beside");
  return <ChangesButton list={list} isOpen={isOpen} onToggle={toggle} />;
}

export function ChangesBeside({ sessionId, place, revision, canNote }: ChangesProps) {
  const [first] = useState(place);
  return (
    <Suspense fallback={null}>
      <ChangesPanel
        sessionId={sessionId}
        revision={revision}
        first={first}
        onClose={() => showChanges(sessionId, "")}
        onReview={(shown) => showChanges(sessionId, "review", shown)}
        onNote={canNote ? (text) => addToDraft(sessionId, text) : null}
      />
    </Suspense>
  );
}

export function FileInstead({ sessionId, place }: ChangesProps) {
  return (
    <Suspense fallback={null}>
      <FilePage key={place.file} sessionId={sessionId} path={place.file} line={place.line} />
    </Suspense>
  );
}

export function ChangesInstead({ sessionId, place, revision, canNote, title }: ChangesProps & { readonly title: string }) {
  const [first] = useState(place);
  return (
    <Suspense fallback={null}>
      <ReviewPage
        sessionId={sessionId}
        revision={revision}
        first={first}
        title={title}
        onClose={() => showChanges(sessionId, "")}
        onPlace={(shown) => noteShown(sessionId, shown)}
        onNote={canNote ? (text) => addToDraft(sessionId, text) : null}
      />
    </Suspense>
  );
}
