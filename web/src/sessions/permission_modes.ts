import type { PermissionMode } from "../../client/src/index.js";

/** What an agent may do without asking, in the order of the lists to choose from. */
export const PERMISSION_MODES: readonly (readonly [PermissionMode, string])[] = [
  ["default", "Ask before changing anything"],
  ["acceptEdits", "Edit files without asking"],
  ["fullAuto", "Never ask"],
  ["readOnly", "Read only"],
];
