import { useState, type KeyboardEvent } from "react";
import { inOneLine } from "../text/unseen.js";
import type { DiffLine } from "./diff_lines.js";

interface LineNoteProps {
  readonly path: string;
  readonly line: DiffLine | undefined;
  readonly onAdd: (text: string) => void;
  readonly onClose: () => void;
}

/** A note on a line, which goes to the agent with the next message. */
export function LineNote({ path, line, onAdd, onClose }: LineNoteProps) {
  const [text, setText] = useState("");
  const row = line?.right ?? line?.left;
  const number = line?.right?.new ?? line?.left?.old;
  const add = () => text.trim() && onAdd(noteText(path, number, row?.text ?? "", text.trim()));
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "Escape") onClose();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) add();
  };
  return (
    <div className="changes-line-note" role="group" aria-label="Note">
      <p className="faint small">{number ? `Line ${number}` : "This line"} · goes to the agent with your next message</p>
      <textarea rows={2} value={text} autoFocus aria-label={`Note on ${inOneLine(path, "code")}`} onChange={(event) => setText(event.target.value)} onKeyDown={onKeyDown} />
      <div className="changes-row">
        <button type="button" className="button small primary" disabled={!text.trim()} onClick={add}>
          Add to message
        </button>
        <button type="button" className="button small" onClick={onClose}>
          Discard
        </button>
      </div>
    </div>
  );
}

const QUOTED_MAX = 200;

export function noteText(path: string, line: number | undefined, code: string, note: string): string {
  const quoted = code.trim() ? `\n> ${code.trim().slice(0, QUOTED_MAX)}` : "";
  return `${path}${line ? `:${line}` : ""}${quoted}\n${note}\n`;
}
