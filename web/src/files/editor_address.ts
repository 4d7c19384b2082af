/** Addresses that open a file in an editor, and the paths that may be in them. */

export interface FilePlace {
  /** The folder of the conversation; empty: not on this machine. */
  readonly root: string;
  /** Relative to it, or absolute. */
  readonly path: string;
  readonly line?: number | undefined;
}

/** What a browser would load or run by itself is no editor. */
const NO_EDITORS = new Set(["javascript", "data", "vbscript", "blob", "file", "filesystem", "http", "https", "ws", "wss", "about", "view-source"]);

export function isEditorAddress(address: string): boolean {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//.exec(address)?.[1];
  return scheme !== undefined && !NO_EDITORS.has(scheme) && address.includes("{path}");
}

/** Empty where there is nothing to open: no editor was chosen, or the file is outside of the folder. */
export function editorAddress(editor: string, { root, path, line }: FilePlace): string {
  const inside = pathInside(root, path);
  if (!inside || !isEditorAddress(editor)) return "";
  const absolute = `${root === "/" ? "" : root}/${inside}`.split("/").map(encodeURIComponent).join("/");
  return editor.replace(/\/?\{path\}/, () => absolute).replaceAll("{line}", String(line ?? 1));
}

/** The path below the folder; empty outside of it, and for the folder itself. */
export function pathInside(root: string, path: string): string {
  if (!root.startsWith("/")) return "";
  const folder = root.endsWith("/") ? root : `${root}/`;
  const inside = path.startsWith("/") ? (path.startsWith(folder) ? path.slice(folder.length) : "") : path;
  const parts = inside.split("/").filter((part) => part && part !== ".");
  return parts.includes("..") || inside.startsWith("~") ? "" : parts.join("/");
}
