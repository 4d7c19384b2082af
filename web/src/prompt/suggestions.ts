import { useEffect, useState } from "react";
import { api } from "../api.js";
import type { IconName } from "../shell/icon.js";
import type { Token } from "./completion.js";

export interface Suggestion {
  readonly key: string;
  readonly icon: IconName;
  readonly name: string;
  readonly note: string;
  readonly inserted: string;
}

/** Where files are looked for: the folder of a session, or one that was chosen for a new one. */
export interface SuggestionSource {
  readonly session?: string;
  readonly cwd?: string;
  readonly agent?: string;
}

const SHOWN_MAX = 8;
const PAUSE_MS = 60;
const NONE: readonly Suggestion[] = [];

export function useSuggestions(token: Token | null, { session = "", cwd = "", agent = "" }: SuggestionSource): readonly Suggestion[] {
  const [found, setFound] = useState<readonly Suggestion[]>(NONE);
  const kind = token?.kind ?? "";
  const query = token?.query ?? "";
  useEffect(() => {
    if (!kind) {
      setFound(NONE);
      return undefined;
    }
    const abort = new AbortController();
    const look = kind === "file" ? filesLike : commandsLike;
    const timer = setTimeout(() => {
      look(query, { session, cwd, agent }, abort.signal).then(
        (next) => !abort.signal.aborted && setFound(next.slice(0, SHOWN_MAX)),
        () => !abort.signal.aborted && setFound(NONE), // it is only help with writing
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [kind, query, session, cwd, agent]);
  return found;
}

async function filesLike(query: string, { session, cwd }: SuggestionSource, signal: AbortSignal): Promise<readonly Suggestion[]> {
  const { files } = await api.files({ query, session: session ?? "", cwd: cwd ?? "" }, signal);
  return files.map((path) => ({ key: path, icon: "read", name: path, note: "", inserted: path }));
}

async function commandsLike(query: string, source: SuggestionSource, signal: AbortSignal): Promise<readonly Suggestion[]> {
  const { commands } = await api.commands({ session: source.session ?? "", cwd: source.cwd ?? "", agent: source.agent ?? "" }, signal);
  const wanted = query.toLowerCase();
  const place = (name: string) => name.toLowerCase().indexOf(wanted);
  return commands
    .filter(({ name }) => place(name) >= 0)
    .sort((left, right) => Math.min(1, place(left.name)) - Math.min(1, place(right.name)))
    .map(({ kind, name, description, text }) => ({
      key: `${kind} ${name}`,
      icon: kind === "template" ? "list" : "command",
      name: `/${name}`,
      note: description,
      inserted: kind === "template" ? text : `/${name} `,
    }));
}
