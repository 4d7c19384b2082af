/** What the last conversation was started with: the next one begins with the same. Kept in this browser. */

import type { PermissionMode } from "../../client/src/index.js";
import { readStored, store } from "../shell/stored.js";

export interface LastStart {
  readonly agent: string;
  readonly runner: string;
  /** Empty: the folder of the server. */
  readonly folder: string;
  readonly mode: PermissionMode | "";
  /** Whether it was confined. */
  readonly sandbox: boolean;
  /** The model that was chosen last for each agent; empty: its usual one. */
  readonly models: { readonly [agent: string]: string };
}

const KEY = "last-start";
const NOTHING: LastStart = { agent: "", runner: "", folder: "", mode: "", sandbox: false, models: {} };

export function lastStart(): LastStart {
  try {
    const found: unknown = JSON.parse(readStored(KEY) ?? "null");
    return typeof found === "object" && found !== null ? { ...NOTHING, ...found } : NOTHING;
  } catch {
    return NOTHING; // written by another version
  }
}

export function rememberStart(last: LastStart): void {
  store(KEY, JSON.stringify(last));
}
