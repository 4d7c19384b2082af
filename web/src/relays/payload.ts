/** What a waiting tool wants shown: in the relay's own fields, or in the payload or the arguments of the tool. */

import type { HarnessRelay, JSONValue } from "../../client/src/index.js";

export interface Choice {
  readonly label: string;
  readonly description: string;
}

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

/** What besides the command a tool is given; null: nothing. */
export function besideCommand(input: JSONValue): JSONValue {
  if (!isFields(input)) return null;
  const shown = COMMAND_KEYS.find((key) => typeof input[key] === "string") ?? "command";
  const rest = Object.entries(input).filter(([key, value]) => key !== shown && value !== null && value !== "");
  return rest.length ? Object.fromEntries(rest) : null;
}

export function textIn(input: JSONValue, keys: readonly string[]): string {
  if (!isFields(input)) return "";
  const key = keys.find((name) => typeof input[name] === "string");
  return key ? (input[key] as string) : "";
}

export function choicesOf(relay: HarnessRelay): readonly Choice[] {
  const given: readonly unknown[] = relay.options ?? [];
  if (given.length) return given.flatMap((label) => (typeof label === "string" ? [{ label, description: "" }] : []));
  const options = isFields(relay.payload) ? relay.payload["options"] : null;
  if (!Array.isArray(options)) return [];
  return options.flatMap((option: JSONValue): Choice[] => {
    if (typeof option === "string") return [{ label: option, description: "" }];
    if (!isFields(option) || typeof option["label"] !== "string") return [];
    return [{ label: option["label"], description: typeof option["description"] === "string" ? option["description"] : "" }];
  });
}

export function allowsSeveral(relay: HarnessRelay): boolean {
  return payloadText(relay, "selectionMode") === "multi_select";
}

export interface Field {
  readonly name: string;
  readonly kind: "text" | "number" | "boolean" | "choice";
  readonly choices: readonly string[];
  readonly description: string;
  readonly isRequired: boolean;
}

/** The fields of an answer that is an object of plain values; null where the schema says anything else. */
export function schemaFields(schema: JSONValue): readonly Field[] | null {
  if (!isFields(schema) || schema["type"] !== "object" || !isFields(schema["properties"] ?? null)) return null;
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const fields: Field[] = [];
  for (const [name, property] of Object.entries(schema["properties"] as Fields)) {
    const kind = isFields(property) ? fieldKind(property) : null;
    if (!kind || !isFields(property)) return null;
    fields.push({
      name,
      kind,
      choices: kind === "choice" ? (property["enum"] as readonly JSONValue[]).map(String) : [],
      description: typeof property["description"] === "string" ? property["description"] : "",
      isRequired: required.includes(name),
    });
  }
  return fields.length ? fields : null;
}

function fieldKind(property: Fields): Field["kind"] | null {
  if (Array.isArray(property["enum"]) && property["enum"].every((value) => typeof value === "string")) return "choice";
  const kinds: { readonly [type: string]: Field["kind"] } = { string: "text", number: "number", integer: "number", boolean: "boolean" };
  return kinds[String(property["type"])] ?? null;
}

function isFields(value: JSONValue): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
