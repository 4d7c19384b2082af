/** What is being written that can be completed: a file after `@`, a command after `/` at the very beginning. */

export interface Token {
  readonly kind: "file" | "command";
  readonly query: string;
  readonly start: number;
  readonly end: number;
}

const FILE = /(?:^|[\s(])@([^\s@"]*)$/;
const COMMAND = /^\/([^\s/]*)$/;

export function tokenAt(text: string, caret: number): Token | null {
  const before = text.slice(0, caret);
  const command = COMMAND.exec(before);
  if (command) return { kind: "command", query: command[1]!, start: 0, end: caret };
  const file = FILE.exec(before);
  if (file) return { kind: "file", query: file[1]!, start: caret - file[1]!.length - 1, end: caret };
  return null;
}

/** The text with the token completed, and where the caret is then. */
export function completed(text: string, token: Token, chosen: string): { readonly text: string; readonly caret: number } {
  const inserted = token.kind === "file" ? `@${/\s/.test(chosen) ? `"${chosen}"` : chosen} ` : chosen;
  const rest = text.slice(token.end);
  return { text: text.slice(0, token.start) + inserted + rest.replace(/^ /, inserted.endsWith(" ") ? "" : " "), caret: token.start + inserted.length };
}
