/** What a waiting tool wants shown: in the relay's own fields, or in the payload or the arguments of the tool. */

import type { HarnessRelay, JSONValue } from "../../client/src/index.js";

type Fields = { readonly [key: string]: JSONValue };

export function payloadText(relay: HarnessRelay, key: string): string {
  for (const fields of [relay.payload, relay.input])
    if (isFields(fields) && typeof fields[key] === "string") return fields[key];
  return "";
}

const COMMAND_KEYS = ["command", "cmd", "script"] as const;

/** The command that a tool's arguments are about; empty where they are about something else. */
export function commandIn(input: JSONValue): string {
  const found = textIn(input, COMMAND_KEYS);
  if (found || !isFields(input)) return found;
  const list = input["command"];
  return Array.isArray(list) ? list.map(quoted).join(" ") : "";
}

/** One word of a command, as a shell would have to be given it. */
function quoted(word: JSONValue): string {
  const text = typeof word === "string" ? word : JSON.stringify(word);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export function textIn(input: JSONValue, keys: readonly string[]): string {
  if (!isFields(input)) return "";
  const key = keys.find((name) => typeof input[name] === "string");
  return key ? (input[key] as string) : "";
}

function isFields(value: JSONValue): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
