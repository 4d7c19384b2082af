/** What a question offers to choose from, and the fields of an answer with several parts. Pure. */

import type { JSONValue } from "../../client/src/index.js";
import type { RowAsk } from "./row.js";

export interface AnswerChoice {
  readonly label: string;
  readonly description: string;
}

export interface AnswerField {
  readonly name: string;
  readonly title: string;
  readonly kind: "text" | "number" | "boolean" | "choice" | "choices";
  readonly choices: readonly string[];
  readonly isRequired: boolean;
}

type Fields = { readonly [key: string]: JSONValue };

export function isFields(value: JSONValue | undefined): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function payloadText(ask: Pick<RowAsk, "payload">, key: string): string {
  const value = isFields(ask.payload) ? ask.payload[key] : null;
  return typeof value === "string" ? value : "";
}

export interface ReachedLimit {
  readonly period: "day" | "month";
  /** A folder; empty: all of them. */
  readonly project: string;
  readonly limitUsd: number;
  readonly spentUsd: number;
}

/** The limit of `harness budget` that a session has reached; null: it asks something else. */
export function limitOf(ask: Pick<RowAsk, "category" | "payload">): ReachedLimit | null {
  const given = ask.category === "budget" && isFields(ask.payload) ? ask.payload["budget"] : null;
  if (!isFields(given)) return null;
  const { period, project, limitUsd, spentUsd } = given;
  if ((period !== "day" && period !== "month") || typeof limitUsd !== "number" || typeof spentUsd !== "number") return null;
  return { period, project: typeof project === "string" ? project : "", limitUsd, spentUsd };
}

/** The payload has descriptions of the choices. */
export function choicesOf(ask: Pick<RowAsk, "options" | "payload">): readonly AnswerChoice[] {
  const described = isFields(ask.payload) && Array.isArray(ask.payload["options"]) ? namedIn(ask.payload["options"]) : [];
  const given = namedIn(ask.options ?? []);
  if (!given.length) return described;
  return given.map((one) => described.find(({ label }) => label === one.label) ?? one);
}

function namedIn(offered: readonly unknown[]): readonly AnswerChoice[] {
  return offered.flatMap((one): AnswerChoice[] => {
    if (typeof one === "string") return [{ label: one, description: "" }];
    const option = one as { label?: unknown; description?: unknown } | null;
    if (typeof option?.label !== "string") return [];
    return [{ label: option.label, description: typeof option.description === "string" ? option.description : "" }];
  });
}

export function allowsSeveral(ask: Pick<RowAsk, "payload">): boolean {
  return payloadText(ask, "selectionMode") === "multi_select";
}

/** The fields of an answer that is an object of plain values; null for any other schema. */
export function fieldsOf(schema: JSONValue): readonly AnswerField[] | null {
  if (!isFields(schema) || schema["type"] !== "object" || !isFields(schema["properties"])) return null;
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const fields: AnswerField[] = [];
  for (const [name, property] of Object.entries(schema["properties"])) {
    const kind = isFields(property) ? kindOf(property) : null;
    if (!kind || !isFields(property)) return null;
    const title = [property["title"], property["description"]].find((text) => typeof text === "string" && text);
    fields.push({ name, title: (title as string | undefined) ?? name, kind: kind.kind, choices: kind.choices, isRequired: required.includes(name) });
  }
  return fields.length ? fields : null;
}

function kindOf(property: Fields): Pick<AnswerField, "kind" | "choices"> | null {
  const texts = (value: JSONValue | undefined) =>
    Array.isArray(value) && value.length && value.every((one) => typeof one === "string") ? (value as readonly string[]) : null;
  const choices = texts(property["enum"]);
  if (choices) return { kind: "choice", choices };
  const items = property["items"];
  const several = property["type"] === "array" && isFields(items) ? texts(items["enum"]) : null;
  if (several) return { kind: "choices", choices: several };
  const kinds: { readonly [type: string]: AnswerField["kind"] } = { string: "text", number: "number", integer: "number", boolean: "boolean" };
  const kind = kinds[String(property["type"])];
  return kind ? { kind, choices: [] } : null;
}

/** The steps of a plan that is a numbered list, and nothing else at its top level; null where it is anything else. */
export function stepsOf(plan: string): readonly string[] | null {
  const lines = plan.split("\n").filter((line) => line.trim());
  const steps = lines.map((line) => /^\s{0,3}\d+[.)]\s+(.+)$/.exec(line)?.[1]);
  return steps.length > 1 && steps.every((step) => step) ? (steps as string[]) : null;
}
