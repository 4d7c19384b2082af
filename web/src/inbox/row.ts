/** The rows of the inbox as the server sends them; `harness.folds.inbox.row` describes them. */

import type { HarnessFilePreview, HarnessOperation, HarnessRelayOption, JSONValue } from "../../client/src/index.js";

export type InboxState = "needs-approval" | "asks" | "running" | "background" | "parked" | "idle" | "succeeded" | "failed" | "interrupted" | "lost";

export interface RowLimit {
  readonly window: string;
  readonly resetsAtMs: number | null;
  /** When it continues by itself; null: a person does it. */
  readonly continuesAtMs: number | null;
  /** Which window it is of those that are waited for in a row. */
  readonly number: number;
  readonly most: number;
  /** It was to continue, and its process died. */
  readonly isUncertain: boolean;
}

export interface RowOperation {
  readonly kind: string;
  readonly text: string;
}

export interface RowChild {
  readonly runId: string;
  readonly name: string;
  readonly state: InboxState;
  readonly startedMs: number;
  readonly tokens: number | null;
  readonly lastOperation: RowOperation | null;
}

/** A place in `subject` that cannot be seen, or looks like something else. */
export interface AskMark {
  readonly start: number;
  readonly end: number;
  readonly kind: string;
  readonly label: string;
}

export interface AskOption extends HarnessRelayOption {
  /** The reach of an “always”, where the server sends it. */
  readonly reach?: "conversation" | "project" | "everywhere" | "";
}

/** A call that waits for permission, as it is shown. */
export interface AskCall {
  readonly toolName: string;
  readonly category: string;
  readonly operations: readonly HarnessOperation[];
  readonly title: string;
  readonly subject: string;
  readonly cwd: string;
  readonly more: readonly (readonly [name: string, value: string])[];
  readonly preview: readonly HarnessFilePreview[] | null;
  readonly marks: readonly AskMark[];
  /** Why a person is asked, as the rules say it. */
  readonly reason: string;
  /** It has more than is here. */
  readonly isCut: boolean;
}

export interface RowAsk extends AskCall {
  readonly id: string;
  readonly kind: "permission" | "question" | "plan" | "tool";
  readonly runId: string;
  readonly callId: string;
  readonly argumentsHash: string;
  readonly askedMs: number;
  readonly runName: string;
  readonly why: string;
  readonly question: string;
  readonly options: readonly string[] | readonly AskOption[] | null;
  readonly payload: JSONValue;
  readonly resumeSchema: JSONValue;
  /** The other calls that the same answer is for. */
  readonly further: readonly AskCall[];
  readonly noAlwaysWhy: string;
  readonly alike: string;
}

export interface InboxRow {
  readonly id: string;
  readonly title: string;
  readonly agent: string;
  readonly agentName: string;
  readonly model: string;
  readonly cwd: string;
  readonly project: { readonly root: string; readonly name: string };
  readonly branch: string;
  readonly worktree: string;
  readonly tags: readonly string[];
  readonly state: InboxState;
  readonly stateSinceMs: number;
  readonly isLive: boolean;
  readonly failure: { readonly code: string; readonly text: string; /** What to do next, where that is known. */ readonly hint?: string } | null;
  /** A window of the provider that ended the last run. */
  readonly limit?: RowLimit | null;
  readonly lastOperation: RowOperation | null;
  readonly asks: readonly RowAsk[];
  readonly children: readonly RowChild[];
  readonly context: { readonly used: number; readonly limit: number | null } | null;
  readonly changes: { readonly files: number; readonly added: number; readonly removed: number; /** False: commands may have changed more. */ readonly isComplete?: boolean; /** Committed since, or called reviewed. */ readonly isReviewed: boolean } | null;
  readonly costUsd: number | null;
  readonly isCostComplete: boolean;
  readonly tokens: number | null;
  readonly queued: number;
  /** Calls of its last run that were not allowed. */
  readonly refused?: number;
  readonly startedMs: number;
  readonly updatedMs: number;
  readonly isUnseen: boolean;
  readonly can: { readonly submit: boolean; readonly steer: boolean; readonly answer: boolean; readonly cancel: boolean };
  /** Of a session that Harness has not recorded: the agent whose own history it is in. */
  readonly history: string;
}

export interface InboxCounts {
  readonly needsYou: number;
  readonly running: number;
  readonly failed: number;
  readonly toReview: number;
}

/** `costUsd` is null where nothing is known. */
export interface InboxToday {
  readonly costUsd: number | null;
  readonly isCostComplete: boolean;
  readonly limitUsd: number | null;
  readonly byAgent: readonly { readonly agent: string; readonly agentName: string; readonly costUsd: number | null; readonly isCostComplete: boolean }[];
}

export interface InboxPage {
  readonly rows: readonly InboxRow[];
  readonly total: number;
  readonly counts: InboxCounts;
  readonly today: InboxToday;
}

/** Whether any of its calls hides something: then it is allowed by a second press, never by a key. */
export const isMarked = ({ marks, further }: RowAsk): boolean => marks.length > 0 || further.some((call) => call.marks.length > 0);

/** The code of a failure: the program that ran it was closed. */
export const PROGRAM_CLOSED = "program_closed";

/** Ended without its work being done, and not because a person stopped it. */
export const hasFailed = ({ state, failure }: InboxRow): boolean => state === "failed" || state === "lost" || (state === "interrupted" && failure?.code === PROGRAM_CLOSED);

export const needsYou = ({ state }: InboxRow): boolean => state === "needs-approval" || state === "asks";
export const works = ({ state }: InboxRow): boolean => state === "running" || state === "background";
