/** The server's REST side, as `docs/protocol.md` describes it. */

import type { Attachment, HarnessFilePart, HarnessState, JSONValue, PermissionMode } from "../client/src/index.js";
import type { InboxPage, RowAsk } from "./inbox/row.js";
import { authorizedFetch } from "./login.js";

export interface Session {
  readonly id: string;
  readonly kind: "run" | "thread";
  readonly title: string;
  readonly prompt: string;
  readonly agent: string;
  readonly agentName: string;
  readonly runner: string;
  readonly model: string;
  readonly mode: string;
  readonly permissionMode: string;
  readonly cwd: string;
  readonly startedMs: number;
  readonly updatedMs: number;
  readonly durationMs: number | null;
  readonly outcome: string;
  readonly isLive: boolean;
  readonly waits: boolean;
  readonly costUsd: number | null;
  readonly tags: readonly string[];
  readonly name: string;
  /** Of a session that Harness has not recorded: the agent whose own history it is in. */
  readonly history: string;
  /** Of such a session, while its agent has it open: `running`, `waiting` or `idle`. */
  readonly activity: string;
  /** Where a search has found it. */
  readonly passage: Passage | null;
}

export interface Passage {
  readonly atMs: number;
  readonly text: string;
  /** Of a file, a command or a commit: what the session did with it. */
  readonly how: string;
  readonly certainty: string;
  /** The command that continues the session. */
  readonly resume: string;
}

/** The calls of a model that a gateway has recorded. */
export interface CallTable {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** How a session would be handed over to another agent. */
export interface HandoverOffer {
  readonly agent: string;
  readonly title: string;
  readonly version: string;
  readonly form: "native" | "briefing";
  readonly why: string;
  readonly messages: number;
  readonly calls: number;
  readonly lost: readonly string[];
  readonly now: readonly string[];
}

export interface SessionPage {
  readonly sessions: readonly Session[];
  readonly total: number;
}

export interface ServerFacts {
  readonly version: string;
  readonly defaultAgent: string;
  readonly defaultModel: string;
  readonly cwd: string;
  readonly modes: readonly { readonly id: string; readonly name: string }[];
}

export interface Agent {
  readonly name: string;
  readonly title: string;
  readonly version: string;
  readonly installed: boolean;
  readonly usable: boolean;
  readonly builtIn: boolean;
  readonly install: string;
  readonly models: boolean;
  readonly capabilities: { readonly [name: string]: boolean };
  /** What can be done with it while it runs: approve, ask, steer … */
  readonly twoWay: readonly string[];
  /** The modes of `permissionMode`, each with why this version cannot be held to it; empty: it can. */
  readonly permissionModes?: { readonly [mode: string]: string };
  /** What would confine it here (namespaces, bubblewrap, landlock); or nothing, and why nothing can. */
  readonly sandbox?: { readonly by: string; readonly refusal: string };
  /** Variables of the environment that it takes its key from. */
  readonly keys: readonly string[];
}

export interface Project {
  readonly folder: string;
  readonly name: string;
  readonly branch: string;
  readonly isRepository: boolean;
  readonly usedMs: number;
  readonly liveAgents: readonly string[];
  /** Files that are not committed; null: not looked. */
  readonly changed: number | null;
}

export interface FolderPage {
  readonly path: string;
  readonly above: string;
  readonly folders: readonly { readonly name: string; readonly path: string; readonly isProject: boolean }[];
  /** The folders from which all that are shown can be reached. */
  readonly roots?: readonly string[];
  readonly hasMore: boolean;
}

export interface Worktree {
  readonly folder: string;
  readonly branch: string;
  readonly base: string;
}

/** A limit of `harness budget`, and what was spent under it. */
export interface LimitSpent {
  readonly period: "day" | "month";
  /** A folder; empty: all of them. */
  readonly project: string;
  readonly limitUsd: number;
  readonly spentUsd: number;
  readonly leftUsd: number;
  readonly isCostComplete: boolean;
  readonly isReached: boolean;
  readonly resetsMs: number;
  /** Whether the project has it by itself, and not as each project does. */
  readonly isOwn: boolean;
}

export interface BudgetSettings {
  readonly own: {
    readonly dayUsd: number | null;
    readonly monthUsd: number | null;
    readonly projectDayUsd: number | null;
    readonly projectMonthUsd: number | null;
    readonly projects: readonly { readonly folder: string; readonly dayUsd: number | null; readonly monthUsd: number | null }[];
  };
  readonly limits: readonly LimitSpent[];
  readonly file: string;
}

export interface LimitChange {
  readonly period: "day" | "month";
  readonly limitUsd: number | null;
  readonly project?: string;
  readonly isEachProject?: boolean;
}

/** A sandbox runner that the user has set up. */
export interface Runner {
  readonly name: string;
  readonly agent: string;
  readonly url: string;
  readonly cwd: string;
}

export interface Model {
  readonly id: string;
  readonly description: string;
  readonly provider: string;
  readonly usable: boolean;
  readonly name: string;
  /** Dollars per million tokens; null: unknown. */
  readonly priceIn: number | null;
  readonly priceOut: number | null;
}

/** Something that `/` completes: a template's text, or a command of the agent itself. */
export interface PromptCommand {
  readonly kind: "template" | "command";
  readonly name: string;
  readonly description: string;
  readonly text: string;
}

export interface NewSession {
  readonly agent?: string;
  readonly runner?: string;
  readonly model?: string;
  readonly mode?: string;
  readonly cwd?: string;
  readonly prompt?: string;
  readonly title?: string;
  readonly permissionMode?: PermissionMode;
  readonly continues?: string;
  readonly before?: string;
  readonly attachments?: readonly Attachment[];
  readonly maxTurns?: number;
  readonly effort?: string;
  readonly systemPrompt?: string;
  readonly folderSettings?: "use" | "none";
  readonly sandbox?: boolean;
}

/** What a folder brings for an agent. */
export interface FolderSettings {
  readonly state: "nothing" | "trusted" | "new" | "changed";
  readonly digest: string;
  readonly sentences: readonly string[];
  readonly changes: readonly string[];
}

/** One of several questions that are answered together; each is answered for itself. */
export interface ManyAnswer {
  readonly session: string;
  readonly relayId: string;
  readonly argumentsHash: string;
  readonly action: "approve" | "deny";
  readonly optionId?: string;
  readonly reason?: string;
}

export interface ManyResult {
  readonly session: string;
  readonly relayId: string;
  readonly error?: string;
  readonly code?: string;
}

/** What is always allowed in a session, until it is revoked. */
export interface Grant {
  readonly id: string;
  readonly label: string;
  readonly session: string;
  readonly title: string;
  readonly agent: string;
  readonly agentName: string;
  readonly project: string;
}

/** What the server sends to whom, when something needs a person or ends. */
export interface NotifySettings {
  readonly needsYou: boolean;
  readonly ended: boolean;
  readonly targets: readonly string[];
  readonly lastSentMs: number;
  readonly lastError: string;
}

/** A browser that is logged in. */
export interface Login {
  readonly id: string;
  readonly browser: string;
  readonly usedMs: number;
  readonly isCurrent: boolean;
}

export interface Timeline {
  readonly seqs: readonly number[];
  readonly times: readonly number[];
}

/** A request that did not give what was asked: `status` is 0 when the server could not be reached at all. */
export class RequestFailed extends Error {
  override name = "RequestFailed";
  constructor(
    readonly status: number,
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

const NOT_CHANGED = Symbol("not changed");

/** The list that the server sent last, so that one that has not changed is not sent again. */
let knownList: { readonly path: string; readonly tag: string; readonly page: SessionPage } | null = null;

/** `asked`: `query` for words, and what else `GET api/sessions` takes. */
async function sessions(asked: Readonly<Record<string, string>>, limit: number, signal?: AbortSignal): Promise<SessionPage> {
  const path = `api/sessions?${new URLSearchParams({ ...asked, limit: String(limit) })}`;
  const known = knownList?.path === path ? knownList : null;
  let tag = "";
  const answer = await request<SessionPage | typeof NOT_CHANGED>("GET", path, undefined, signal, {
    headers: known ? { "If-None-Match": known.tag } : {},
    onAnswer: (response) => (tag = response.headers.get("ETag") ?? ""),
  });
  if (answer === NOT_CHANGED) return known?.page ?? { sessions: [], total: 0 };
  knownList = tag ? { path, tag, page: answer as SessionPage } : null;
  return answer as SessionPage;
}

interface Extras {
  readonly headers?: Readonly<Record<string, string>>;
  readonly onAnswer?: (response: Response) => void;
}

export async function request<Answer>(method: string, path: string, body?: unknown, signal?: AbortSignal, extras: Extras = {}): Promise<Answer> {
  let response: Response;
  try {
    response = await authorizedFetch(path, {
      method,
      headers: { ...extras.headers, ...(body !== undefined && { "Content-Type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestFailed(0, "The server cannot be reached.", "Is “harness serve” still running?");
  }
  extras.onAnswer?.(response);
  if (response.status === 204) return undefined as Answer;
  if (response.status === 304) return NOT_CHANGED as Answer;
  const answer: unknown = await response.json().catch((error: unknown) => {
    if (signal?.aborted) throw error;
    return null;
  });
  if (response.ok && answer !== null) return answer as Answer;
  const problem = (answer as { error?: { message?: string; hint?: string } } | null)?.error;
  throw new RequestFailed(response.status, problem?.message ?? `The server’s response (${response.status}) could not be read.`, problem?.hint);
}

/** A document, and the name that the server gives it. */
async function exported(id: string, wanted: Readonly<Record<string, string>>): Promise<{ readonly name: string; readonly blob: Blob }> {
  const response = await authorizedFetch(`${sessionPath(id)}/export?${new URLSearchParams(wanted)}`).catch(() => null);
  if (!response?.ok) throw new RequestFailed(response?.status ?? 0, "The conversation could not be exported.");
  const name = /filename="([\w.-]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1];
  return { name: name ?? "session.html", blob: await response.blob() };
}

const query = (values: Readonly<Record<string, string>>) => String(new URLSearchParams(Object.entries(values).filter(([, value]) => value)));
export const sessionPath = (id: string) => `api/sessions/${encodeURIComponent(id)}`;
const at = sessionPath;

export const api = {
  inbox: (limit: number, signal?: AbortSignal) => request<InboxPage>("GET", `api/inbox?limit=${limit}`, undefined, signal),
  answerMany: (answers: readonly ManyAnswer[]) => request<{ answers: readonly ManyResult[] }>("POST", "api/inbox/answers", { answers }),
  notify: () => request<NotifySettings>("GET", "api/settings/notify"),
  chooseNotify: (choices: Pick<NotifySettings, "needsYou" | "ended">) => request<NotifySettings>("PUT", "api/settings/notify", choices),
  budget: (signal?: AbortSignal) => request<BudgetSettings>("GET", "api/settings/budget", undefined, signal),
  setBudget: (changes: readonly LimitChange[]) => request<BudgetSettings>("PUT", "api/settings/budget", { changes }),
  testNotify: () => request<{ problems: readonly string[] }>("POST", "api/inbox/notify/test", {}),
  grants: () => request<{ grants: readonly Grant[] }>("GET", "api/grants"),
  revoke: (session: string, grantId: string) => request<unknown>("POST", `${at(session)}/commands`, { commands: [{ type: "revoke", grantId }] }),
  logins: () => request<{ logins: readonly Login[] }>("GET", "api/logins"),
  logOut: (id: string) => request<void>("DELETE", `api/logins/${encodeURIComponent(id)}`),
  wholeAsk: (session: string, ask: string, signal?: AbortSignal) => request<RowAsk>("GET", `${at(session)}/asks/${encodeURIComponent(ask)}`, undefined, signal),
  server: (signal?: AbortSignal) => request<ServerFacts>("GET", "api/server", undefined, signal),
  sessions,
  session: (id: string, signal?: AbortSignal) => request<Session>("GET", at(id), undefined, signal),
  createSession: (options: NewSession) => request<Session>("POST", "api/sessions", options),
  renameSession: (id: string, title: string) => request<Session>("PATCH", at(id), { title }),
  tagSession: (id: string, tags: readonly string[]) => request<Session>("PATCH", at(id), { tags }),
  keep: (id: string) => request<{ id: string; status: string }>("POST", `${at(id)}/keep`, {}),
  handOver: (id: string, to: string, signal?: AbortSignal) => request<HandoverOffer>("GET", `${at(id)}/hand-over?${query({ to })}`, undefined, signal),
  exported,
  modelCalls: (id: string, signal?: AbortSignal) => request<CallTable>("GET", `${at(id)}/requests`, undefined, signal),
  modelCall: (id: string, number: number) => request<{ lines: readonly string[] }>("GET", `${at(id)}/requests/${number}?new=true`),
  fork: (id: string, step: number, model: string) => request<{ id: string }>("POST", `${at(id)}/forks`, { at: step, model }),
  deleteSession: (id: string) => request<void>("DELETE", at(id)),
  state: (id: string, signal?: AbortSignal) => request<{ state: HarnessState; seq: number }>("GET", `${at(id)}/state`, undefined, signal),
  stateAt: (id: string, seq: number, signal?: AbortSignal) =>
    request<{ state: HarnessState; seq: number }>("GET", `${at(id)}/state?at=${seq}`, undefined, signal),
  timeline: (id: string, signal?: AbortSignal) => request<Timeline>("GET", `${at(id)}/timeline`, undefined, signal),
  call: (id: string, callId: string) =>
    request<{ input: JSONValue; output: string; files: readonly HarnessFilePart[] }>("GET", `${at(id)}/calls/${encodeURIComponent(callId)}`),
  agents: (signal?: AbortSignal) => request<{ agents: readonly Agent[]; runners: readonly Runner[] }>("GET", "api/agents", undefined, signal),
  histories: (signal?: AbortSignal) => request<{ histories: readonly { agent: string; title: string; sessions: number }[] }>("GET", "api/histories", undefined, signal),
  demonstration: () => request<{ folder: string; model: string; prompt: string }>("POST", "api/demonstration", {}),
  projects: (signal?: AbortSignal) => request<{ projects: readonly Project[] }>("GET", "api/projects", undefined, signal),
  project: (folder: string, signal?: AbortSignal) => request<Project>("GET", `api/projects/one?${query({ folder })}`, undefined, signal),
  folders: (path: string, signal?: AbortSignal) => request<FolderPage>("GET", `api/folders?${query({ path })}`, undefined, signal),
  folderSettings: (cwd: string, agent: string, signal?: AbortSignal) =>
    request<FolderSettings>("GET", `api/folder-settings?${query({ cwd, agent })}`, undefined, signal),
  trustFolder: (shown: { cwd: string; agent: string; digest: string }) => request<FolderSettings>("POST", "api/folder-settings", shown),
  makeWorktree: (wanted: { folder: string; branch: string; kind: "worktree" | "branch" }) => request<Worktree>("POST", "api/worktrees", wanted),
  removeWorktree: (folder: string, force = false) => request<void>("DELETE", "api/worktrees", { folder, force }),
  files: (wanted: { query: string; session: string; cwd: string }, signal?: AbortSignal) =>
    request<{ files: readonly string[] }>("GET", `api/files?${query(wanted)}`, undefined, signal),
  commands: (wanted: { session: string; cwd: string; agent: string }, signal?: AbortSignal) =>
    request<{ commands: readonly PromptCommand[] }>("GET", `api/commands?${query(wanted)}`, undefined, signal),
  models: (agent: string, signal?: AbortSignal) =>
    request<{ models: readonly Model[]; defaultModel: string }>("GET", `api/models?${new URLSearchParams({ agent })}`, undefined, signal),
};
