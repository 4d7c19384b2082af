/** The content of an item as plain text: to be copied, and to be searched in when it is not drawn. */

import type { HarnessMessage, HarnessToolCall } from "../../client/src/index.js";
import { changeOf } from "../tools/change.js";
import { operationsOf, summaryOf } from "../tools/summary.js";
import type { Item } from "./items.js";

export function textOf(item: Item): string {
  switch (item.kind) {
    case "user":
    case "steered":
      return item.message.content;
    case "part":
      if (item.call) return callText(item.call);
      return "text" in item.part ? item.part.text : "name" in item.part ? item.part.name : "";
    case "looks":
      return item.calls.map(lineOf).join("\n");
    default:
      return "";
  }
}

/** The text of the agent in a run of messages, without its calls. */
export function saidText(messages: readonly HarnessMessage[]): string {
  return messages.map(({ content }) => content.trim()).filter(Boolean).join("\n\n");
}

function lineOf(call: HarnessToolCall): string {
  const { verb, subject } = summaryOf(call);
  return `${verb} ${subject}`.trim();
}

const SIGNS = { same: " ", added: "+", removed: "-", place: "" } as const;

/** A command with its output, a change as a diff, or what was asked and what came back. */
function callText(call: HarnessToolCall): string {
  const output = call.output ?? "";
  const commands = operationsOf(call).flatMap((operation) => (operation.kind === "command" ? [`$ ${operation.command}`] : []));
  if (commands.length) return [...commands, output].filter(Boolean).join("\n");
  const change = operationsOf(call)[0]?.kind === "write" ? changeOf(call) : [];
  if (change.length) return [lineOf(call), ...change.map(({ kind, text }) => SIGNS[kind] + text)].join("\n");
  return [lineOf(call), ...(call.messages ?? []).map(({ content }) => content), output].filter(Boolean).join("\n");
}
