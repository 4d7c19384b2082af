/** What an agent can do, in words, and what can therefore be chosen for it. */

import type { PermissionMode } from "../../client/src/index.js";
import type { Agent } from "../api.js";

const WORDS: readonly (readonly [string, string])[] = [
  ["approve", "asks"],
  ["steer", "steers"],
  ["files", "takes files"],
];

export interface Abilities {
  /** “asks · steers · resumes”, or what it lacks. */
  readonly words: string;
  readonly canAsk: boolean;
  /** Why a mode is not offered, as the server says it. */
  readonly why: string;
  readonly modes: ReadonlySet<PermissionMode>;
}

export function abilitiesOf(agent: Agent | undefined): Abilities {
  const can = new Set(agent?.twoWay ?? []);
  const refusals = agent?.permissionModes ?? {};
  const canAsk = !agent || (can.has("approve") && !refusals["default"]);
  const canOnlyRead = !agent || ((agent.builtIn || !!agent.capabilities["read_only"]) && !refusals["readOnly"]);
  const modes = new Set<PermissionMode>(["fullAuto", ...(canAsk ? (["default", "acceptEdits"] as const) : []), ...(canOnlyRead ? (["readOnly"] as const) : [])]);
  const words = [...WORDS.flatMap(([name, word]) => (can.has(name) && (name !== "approve" || canAsk) ? [word] : [])), ...(agent?.capabilities["resume"] ? ["resumes"] : []), ...(agent?.builtIn ? ["any model"] : [])];
  const why = refusals["default"] || refusals["readOnly"] || "";
  if (canAsk) return { words: words.join(" · "), canAsk, modes, why };
  return { why, words: canOnlyRead ? "cannot ask: choose Never or Read only" : "cannot ask and cannot be read only: choose Never", canAsk, modes };
}

/** The mode that was wished for, or the nearest that the agent has. */
export function nearestMode(wished: PermissionMode, { modes }: Abilities): PermissionMode {
  if (modes.has(wished)) return wished;
  return modes.has("readOnly") && wished !== "fullAuto" ? "readOnly" : "fullAuto";
}

const WORD_MAX = 4;
const SKIPPED = new Set(["a", "an", "and", "as", "for", "in", "it", "let", "of", "on", "please", "so", "that", "the", "this", "to", "with"]);

/** A branch called after the first words of a prompt. */
export function branchFor(prompt: string): string {
  const words = prompt
    .replace(/@\S+/g, "")
    .normalize("NFKD")
    .toLowerCase()
    .match(/[a-z0-9]+/g);
  const chosen = (words ?? []).filter((word) => !SKIPPED.has(word)).slice(0, WORD_MAX);
  return chosen.join("-").slice(0, 40) || "new-work";
}
