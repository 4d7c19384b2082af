/** What a client may ask of the server. Fire and forget: what comes of it is seen in the state. */

import type { JSONValue } from "./object_stream.js";

export interface Attachment {
  readonly mediaType: string;
  readonly name: string;
  /** Base64. */
  readonly data: string;
}

export type PermissionMode = "default" | "acceptEdits" | "fullAuto" | "readOnly";

export interface RunConfig {
  readonly agent?: string;
  /** The name of a sandbox runner, of the agent `remote`. */
  readonly runner?: string;
  readonly model?: string;
  readonly mode?: string;
  readonly permissionMode?: PermissionMode;
  readonly maxTurns?: number;
  readonly systemPrompt?: string;
  readonly cwd?: string;
}

interface Identified {
  /** Comes back with the error, should the server refuse the command. */
  readonly id?: string;
}

export type HarnessCommand = Identified &
  (
    | { readonly type: "submit"; readonly prompt: string; readonly attachments?: readonly Attachment[] }
    | { readonly type: "cancel"; readonly queue?: "keep" | "clear" }
    | { readonly type: "continue" }
    | { readonly type: "steer"; readonly message: string }
    | { readonly type: "approve"; readonly toolCallId?: string; readonly relayId?: string; readonly always?: boolean; readonly optionId?: string; readonly argumentsHash?: string }
    | { readonly type: "deny"; readonly toolCallId?: string; readonly relayId?: string; readonly reason?: string; readonly argumentsHash?: string }
    | { readonly type: "answer"; readonly relayId: string; readonly answer: JSONValue; readonly argumentsHash?: string }
    | { readonly type: "revoke"; readonly grantId?: string }
    | { readonly type: "resume"; readonly prompt: string; readonly sessionId: string }
    | { readonly type: "configure"; readonly config: RunConfig }
    | { readonly type: "withdraw"; readonly followUpId: string }
    | { readonly type: "rename"; readonly title: string }
  );
