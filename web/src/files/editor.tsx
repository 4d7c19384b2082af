/** A file in the editor of the person who looks at the page: by an address that the editor has registered for itself. */

import { useState } from "react";
import { Icon } from "../shell/icon.js";
import { useStored } from "../shell/stored.js";
import { inOneLine } from "../text/unseen.js";
import { editorAddress, isEditorAddress, type FilePlace } from "./editor_address.js";

const KNOWN: readonly (readonly [name: string, address: string])[] = [
  ["VS Code", "vscode://file/{path}:{line}"],
  ["Cursor", "cursor://file/{path}:{line}"],
  ["Windsurf", "windsurf://file/{path}:{line}"],
  ["Zed", "zed://file/{path}:{line}"],
  ["IntelliJ IDEA", "idea://open?file={path}&line={line}"],
  ["PyCharm", "pycharm://open?file={path}&line={line}"],
  ["TextMate", "txmt://open?url=file://{path}&line={line}"],
];

/** The name of an editor, and how it is called. */
function useEditor(): readonly [name: string, address: string, choose: (address: string) => void] {
  const [stored, choose] = useStored("harness.editor");
  const address = stored && isEditorAddress(stored) ? stored : "";
  return [KNOWN.find(([, known]) => known === address)?.[0] ?? (address ? "your editor" : ""), address, choose];
}

export function EditorLink(place: FilePlace) {
  const [name, editor] = useEditor();
  const address = editorAddress(editor, place);
  if (!address) return null;
  return (
    <a className="quiet small" href={address} title={`Open ${inOneLine(place.path, "code")}${place.line ? ` at line ${place.line}` : ""} in ${name}`}>
      <Icon name="open" /> <span className="changes-wide-only">Open in {name}</span>
    </a>
  );
}

const OTHER = "other";

/** Which editor, of all that this browser can call. */
export function EditorSetting() {
  const [, address, choose] = useEditor();
  const [isOther, setOther] = useState(() => !!address && !KNOWN.some(([, known]) => known === address));
  const [typed, setTyped] = useState(address);
  const pick = (value: string) => {
    setOther(value === OTHER);
    if (value !== OTHER) choose(value);
  };
  return (
    <section className="setting-panel" aria-labelledby="settings-editor">
      <h2 id="settings-editor">Editor</h2>
      <div className="setting-row">
        <select className="setting-select" aria-label="Editor" value={isOther ? OTHER : address} onChange={(event) => pick(event.target.value)}>
          <option value="">None</option>
          {KNOWN.map(([name, known]) => (
            <option key={known} value={known}>
              {name}
            </option>
          ))}
          <option value={OTHER}>Another one…</option>
        </select>
        {isOther && (
          <input
            aria-label="Address of the editor"
            placeholder="editor://open?file={path}&line={line}"
            value={typed}
            onChange={(event) => (setTyped(event.target.value), isEditorAddress(event.target.value.trim()) && choose(event.target.value.trim()))}
          />
        )}
      </div>
      <p className="small faint">
        Files are opened by this browser, with an address that the editor has registered. {isOther && !isEditorAddress(typed.trim()) && "It needs a scheme of its own and {path}."}
      </p>
    </section>
  );
}
