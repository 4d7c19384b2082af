/** Going on from before a message: the files that were changed since may be taken back, too. Never by itself. */

import { useEffect, useState } from "react";
import "../changes/changes.css";
import { countOf } from "../changes/amounts.js";
import { changesApi } from "../changes/changes_api.js";
import { UndoNotice, type Wish } from "../changes/turn_undo.js";

interface FilesNoteProps {
  readonly sessionId: string;
  /** The run that began with the message. */
  readonly runId: string;
}

interface FilesSince {
  readonly wish: Wish;
  readonly count: number;
}

export function FilesNote({ sessionId, runId }: FilesNoteProps) {
  const [since, setSince] = useState<FilesSince | null>(null);
  const [isOpen, setOpen] = useState(false);
  const [said, setSaid] = useState("");
  useEffect(() => {
    const aborter = new AbortController();
    filesSince(sessionId, runId, aborter.signal).then(
      (found) => !aborter.signal.aborted && setSince(found),
      () => undefined, // without a record there is nothing to offer
    );
    return () => aborter.abort();
  }, [sessionId, runId]);
  if (said) return <p className="start-hint" role="status">{said} “Redo” under Changes there brings them again.</p>;
  if (!since) return null;
  if (isOpen) return <UndoNotice sessionId={sessionId} wish={since.wish} onCancel={() => setOpen(false)} onDone={setSaid} />;
  return (
    <p className="start-hint">
      Since then {countOf(since.count, "file")} {since.count === 1 ? "was" : "were"} changed.{" "}
      <button type="button" className="link" onClick={() => setOpen(true)}>
        Take {since.count === 1 ? "it" : "them"} back, too…
      </button>
    </p>
  );
}

/** What an undo of the turn of a message, and of all after it, would take back. */
async function filesSince(sessionId: string, runId: string, signal: AbortSignal): Promise<FilesSince | null> {
  const { turns } = await changesApi.turns(sessionId, signal);
  const first = turns.find(({ id }) => id === runId);
  const last = turns.at(-1);
  if (!first || !last) return null;
  const isOne = first === last;
  const turn = isOne ? first.id : `${first.number}..${last.number}`;
  const plan = await changesApi.undoTurn(sessionId, turn, null);
  const count = plan.files.filter(({ act }) => act !== "keep").length;
  const name = isOne ? `turn ${first.number}` : `turns ${first.number}–${last.number}`;
  return count ? { wish: { verb: "undo", turn, name }, count } : null;
}
