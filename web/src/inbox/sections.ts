/** Which rows are where: needs you, running, earlier by project and day; and what a search asks for. Pure. */

import type { InboxFilter } from "../route.js";
import { hasFailed, needsYou, works, type InboxRow, type RowAsk } from "./row.js";

export interface Group {
  readonly key: string;
  /** The project, or the day. */
  readonly name: string;
  readonly root: string;
  readonly day: string;
  readonly rows: readonly InboxRow[];
  readonly costUsd: number | null;
  readonly isCostComplete: boolean;
}

export interface Sections {
  /** Longest wait first. */
  readonly needsYou: readonly InboxRow[];
  readonly running: readonly InboxRow[];
  readonly earlier: readonly InboxRow[];
}

export function sectionsOf(rows: Iterable<InboxRow>, filter: InboxFilter): Sections {
  const found = [...rows].filter((row) => passes(row, filter));
  return {
    needsYou: found.filter((row) => needsYou(row) && row.asks.length > 0).sort((left, right) => left.stateSinceMs - right.stateSinceMs || order(left, right)),
    // What needs you without saying what for has to be opened.
    running: found
      .filter((row) => works(row) || (needsYou(row) && !row.asks.length))
      .sort((left, right) => left.startedMs - right.startedMs || order(left, right)),
    earlier: found.filter((row) => !needsYou(row) && !works(row)).sort((left, right) => right.updatedMs - left.updatedMs || order(left, right)),
  };
}

const order = (left: InboxRow, right: InboxRow): number => (left.id < right.id ? -1 : 1);

const STATES: { readonly [State in Exclude<InboxFilter["state"], "">]: (row: InboxRow) => boolean } = {
  "needs-you": needsYou,
  running: works,
  failed: hasFailed,
  "to-review": isToReview,
};

/** At rest, and with changes that were neither committed nor called reviewed. */
export function isToReview(row: InboxRow): boolean {
  return !!row.changes && !row.changes.isReviewed && !needsYou(row) && !works(row);
}

export function passes(row: InboxRow, { state, project, agent, tag }: InboxFilter): boolean {
  return (
    (!state || STATES[state](row)) && (!project || row.project.root === project) && (!agent || row.agentName === agent) && (!tag || row.tags.includes(tag))
  );
}

export function isLimited({ state, project, agent, tag }: InboxFilter): boolean {
  return !!(state || project || agent || tag);
}

const FIELDS = /(?:^|\s)(file|command|commit|agent|project|model|tag|outcome|since|until):("[^"]*"|\S+)/g;

/** What is asked for: words, and `file:src/cart.py`, `command:"git push"`, `commit:4c1d…`, `agent:codex`, `since:7d` and so on. */
export function askedIn(text: string): Readonly<Record<string, string>> {
  const asked: Record<string, string> = {};
  const words = text.replace(FIELDS, (_whole, name: string, value: string) => ((asked[name] = value.replace(/^"|"$/g, "")), " "));
  return { ...asked, query: words.trim() };
}

/** What can be chosen from, the most urgent first. */
export interface Choice {
  readonly value: string;
  readonly name: string;
  readonly count: number;
  readonly needsYou: number;
}

export function choicesIn(rows: Iterable<InboxRow>, valuesOf: (row: InboxRow) => readonly (readonly [value: string, name: string])[]): readonly Choice[] {
  const found = new Map<string, Choice>();
  for (const row of rows)
    for (const [value, name] of valuesOf(row)) {
      const known = found.get(value) ?? { value, name, count: 0, needsYou: 0 };
      found.set(value, { ...known, count: known.count + 1, needsYou: known.needsYou + (needsYou(row) ? 1 : 0) });
    }
  return [...found.values()].sort((left, right) => right.needsYou - left.needsYou || right.count - left.count || (left.name < right.name ? -1 : 1));
}

export const projectOf = ({ project }: InboxRow): readonly (readonly [string, string])[] =>
  project.root ? [[project.root, project.name || project.root]] : [];
export const agentOf = ({ agent, agentName }: InboxRow): readonly (readonly [string, string])[] =>
  agentName || agent ? [[agentName || agent, agent || agentName]] : [];
/** Not those that name one case of a fleet: each has its own, and the fleet's page has them all. */
export const tagsOf = ({ tags }: InboxRow): readonly (readonly [string, string])[] => tags.filter((tag) => !tag.startsWith("case=")).map((tag) => [tag, tag] as const);

/** With another tag, once, and without the sign that people write before one. */
export function withTag(tags: readonly string[], text: string): readonly string[] {
  const tag = text.trim().replace(/^#+\s*/, "").replace(/\s+/g, "-");
  return !tag || tags.includes(tag) ? tags : [...tags, tag];
}

/** The day that a moment is on, for people: Today, Yesterday, 13 Nov. */
export function dayOf(time_ms: number, now_ms: number): string {
  const start = (moment_ms: number) => new Date(moment_ms).setHours(0, 0, 0, 0);
  const days = Math.round((start(now_ms) - start(time_ms)) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  const date = new Date(time_ms);
  const isThisYear = date.getFullYear() === new Date(now_ms).getFullYear();
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(!isThisYear && { year: "numeric" }) });
}

/** By project and then day; or by day alone. `rows` are the newest first, and so are the groups. */
export function groupsOf(rows: readonly InboxRow[], by: "project" | "day", now_ms: number): readonly Group[] {
  const found = new Map<string, InboxRow[]>();
  const projects = new Map<string, number>();
  for (const row of rows) {
    const day = dayOf(row.updatedMs, now_ms);
    const key = by === "day" ? day : `${row.project.root}\n${day}`;
    if (!projects.has(row.project.root)) projects.set(row.project.root, projects.size);
    const known = found.get(key);
    if (known) known.push(row);
    else found.set(key, [row]);
  }
  const groups = [...found].map(([key, members]) => groupFor(key, members, by, now_ms));
  if (by === "day") return groups;
  return groups
    .map((group, index) => ({ group, index }))
    .sort((left, right) => projects.get(left.group.root)! - projects.get(right.group.root)! || left.index - right.index)
    .map(({ group }) => group);
}

function groupFor(key: string, rows: readonly InboxRow[], by: "project" | "day", now_ms: number): Group {
  const first = rows[0]!;
  const costs = rows.flatMap(({ costUsd }) => (costUsd === null ? [] : [costUsd]));
  const day = dayOf(first.updatedMs, now_ms);
  return {
    key,
    name: by === "day" ? day : first.project.name || "No folder",
    root: by === "day" ? "" : first.project.root,
    day: by === "day" ? "" : day,
    rows,
    costUsd: costs.length ? costs.reduce((sum, cost) => sum + cost, 0) : null,
    isCostComplete: rows.every((row) => row.isCostComplete && row.costUsd !== null),
  };
}

/** A question and the conversation that it belongs to. */
export interface OpenAsk {
  readonly key: string;
  readonly row: InboxRow;
  readonly ask: RowAsk;
}

export const askKey = (session: string, relay: string): string => `${session} ${relay}`;

export function openAsks(rows: Iterable<InboxRow>): readonly OpenAsk[] {
  return [...rows].flatMap((row) => row.asks.map((ask) => ({ key: askKey(row.id, ask.id), row, ask })));
}

/** Questions that may be answered together: two or more with the same value, without marks. */
export function alikeIn(asks: readonly OpenAsk[]): readonly (readonly OpenAsk[])[] {
  const found = new Map<string, OpenAsk[]>();
  for (const one of asks) {
    if (!one.ask.alike || one.ask.marks.length || !one.row.can.answer) continue;
    const known = found.get(one.ask.alike);
    if (known) known.push(one);
    else found.set(one.ask.alike, [one]);
  }
  return [...found.values()].filter(({ length }) => length > 1);
}

/**
 * The keys in the order in which they are shown. While the section is in use, what is there stays where it is and what is
 * new comes below; what has just been answered stays in its place.
 */
export function arranged(before: readonly string[], wanted: readonly string[], staying: ReadonlySet<string>, isHeld: boolean): readonly string[] {
  const wantedKeys = new Set(wanted);
  const stays = before.filter((key) => wantedKeys.has(key) || staying.has(key));
  if (!isHeld && !stays.some((key) => !wantedKeys.has(key))) return wanted;
  const known = new Set(stays);
  return [...stays, ...wanted.filter((key) => !known.has(key))];
}
