/** A file of the conversation's folder as it is now, at a line. */

import { useEffect, useMemo, useRef, useState } from "react";
import { FilePath } from "../changes/amounts.js";
import { changesApi, type FileText } from "../changes/changes_api.js";
import type { DiffLine } from "../changes/diff_lines.js";
import { DiffTable } from "../changes/diff_table.js";
import { wordsOf } from "../changes/revert_notice.js";
import { useDiffChoice } from "../changes/stored.js";
import { fileAddress, go, sessionAddress } from "../route.js";
import { CopyButton } from "../shell/copy_button.js";
import { Icon } from "../shell/icon.js";
import { useKeys } from "../shell/keys.js";
import { inOneLine } from "../text/unseen.js";
import { EditorLink } from "./editor.js";
import { Picture } from "./picture.js";
import "../changes/changes.css";
import "../changes/review.css";

interface FilePageProps {
  readonly sessionId: string;
  readonly path: string;
  readonly line: number;
}

export default function FilePage({ sessionId, path, line }: FilePageProps) {
  const { file, lines, problem } = useFile(sessionId, path);
  const [choice, choose] = useDiffChoice();
  const [cursor, setCursor] = useState(line - 1);
  const scroller = useRef<HTMLDivElement>(null);
  const close = () => (window.history.length > 1 ? window.history.back() : go(sessionAddress(sessionId)));
  const wrap = () => choose({ isWrapped: !choice.isWrapped });
  useKeys({ Escape: close, w: wrap });
  const select = (index: number) => {
    setCursor(index);
    window.history.replaceState(window.history.state, "", fileAddress(sessionId, path, index + 1));
  };
  const shown = file?.path ?? path;
  return (
    <div className="changes-main file-page">
      <header className="changes-bar">
        <button type="button" className="quiet changes-back" onClick={close}>
          <Icon name="back" /> Back <kbd>Esc</kbd>
        </button>
        <h1 className="changes-grow clipped">
          <FilePath path={inOneLine(shown, "code")} />
        </h1>
        {file && !file.note && <span className="faint small changes-wide-only">{file.total.toLocaleString("en")} lines</span>}
        {file && <EditorLink root={file.root} path={shown} line={cursor + 1 || 1} />}
        <CopyButton label="Copy path" text={cursor >= 0 ? `${shown}:${cursor + 1}` : shown} />
        <button type="button" className="quiet" aria-pressed={choice.isWrapped} onClick={wrap}>
          Wrap
        </button>
      </header>
      {(problem || file?.note) && <p className="changes-note faint">{inOneLine(problem || file!.note)}</p>}
      {file?.picture && <ShownPicture address={file.picture} name={shown} />}
      <div ref={scroller} className="changes-scroll file-text" tabIndex={0} role="group" aria-label="Text">
        {lines.length > 0 && (
          <DiffTable
            label={shown}
            path={shown}
            lines={lines}
            isSplit={false}
            isWrapped={choice.isWrapped}
            scroller={scroller}
            cursor={cursor}
            asked={line > 0 && lines.length >= line ? 1 : 0}
            onLine={select}
            onExpand={null}
            below={null}
          />
        )}
      </div>
    </div>
  );
}

function ShownPicture({ address, name }: { address: string; name: string }) {
  const found = /^data:([^;]+);base64,(.*)$/s.exec(address);
  if (!found) return null;
  return (
    <div className="changes-pictures">
      <Picture data={found[2]!} mediaType={found[1]!} name={name} instead={<span className="faint">This picture cannot be shown.</span>} />
    </div>
  );
}

interface LoadedFile {
  readonly file: FileText | null;
  readonly lines: readonly DiffLine[];
  readonly problem: string;
}

/** The lines come in pages; the first are shown while the others are still on their way. */
function useFile(sessionId: string, path: string): LoadedFile {
  const [file, setFile] = useState<FileText | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    const load = async () => {
      let read: readonly string[] = [];
      for (;;) {
        const page = await changesApi.text(sessionId, path, read.length, abort.signal);
        read = [...read, ...page.lines];
        setFile({ ...page, lines: read });
        if (read.length >= page.total || !page.lines.length) return;
      }
    };
    load().catch((error: unknown) => !abort.signal.aborted && setProblem(wordsOf(error)));
    return () => abort.abort();
  }, [sessionId, path]);
  const lines = useMemo(
    () =>
      (file?.lines ?? []).map((text, index): DiffLine => {
        const row = { kind: "same", text, new: index + 1 } as const;
        return { place: null, left: row, right: row, partner: null };
      }),
    [file],
  );
  return { file, lines, problem };
}
