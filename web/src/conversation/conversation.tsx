/** One conversation: its messages, its questions, and the composer. The component lives as long as it is shown. */

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { HarnessRelay, HarnessState } from "../../client/src/index.js";
import { useChangesPlace } from "../changes/place.js";
import type { ChangeList } from "../changes/changes_api.js";
import { useChanges, useRevision } from "../changes/use_changes.js";
import { useChosenFiles } from "../files/chosen_files.js";
import { RelayDock } from "../relays/relay_dock.js";
import { ReplayBar } from "../replay/replay_bar.js";
import { useReplay } from "../replay/replay.js";
import { ConnectionBanner } from "../shell/connection_banner.js";
import { Placeholder } from "../shell/placeholder.js";
import { Revealed } from "../text/revealed.js";
import { inOneLine } from "../text/unseen.js";
import { ChangesBeside, ChangesInstead, ChangesToggle, FileInstead } from "./changes_place.js";
import { Composer } from "./composer.js";
import { ConversationContext, type ConversationFacts } from "./context.js";
import { ConversationHeader, firstPrompt } from "./header.js";
import { OpenStateContext } from "./open_state.js";
import { useLiveConversation, type LiveConversation } from "./live_state.js";
import { RunBar } from "./run_bar.js";
import { useShownRun } from "./shown_run.js";
import { SidePanel } from "./side_panel.js";
import { Thread } from "./thread.js";
import { useFindKey } from "./use_find_key.js";

interface ConversationProps {
  readonly sessionId: string;
  /** The agent as the list calls it. */
  readonly agentTitle: string;
  readonly onMenu: () => void;
  /** Something changed that the list of conversations shows too. */
  readonly onNews: () => void;
}

export function Conversation({ sessionId, agentTitle, onMenu, onNews }: ConversationProps) {
  const live = useLiveConversation(sessionId);
  const replay = useReplay(sessionId, live.state.seq);
  const [isPanelOpen, setPanelOpen] = useState(false);
  const [isFinding, setFinding] = useState(false);
  const [openState] = useState(() => new Map<string, unknown>());
  const state = replay.state ?? live.state;
  const shownRun = useShownRun(state);
  const revision = useRevision(live.state);
  const { list } = useChanges(sessionId, "conversation", revision, live.isLoaded);
  const facts = useFacts(sessionId, live, state, list, replay.isOn);
  const chosen = useChosenFiles();
  const refusal = useRefusal(live);
  const { status, title, relays } = live.state;
  const waits = relays.some((relay) => relay.status === "pending");
  const changes = { sessionId, place: useChangesPlace(), revision, list, canNote: live.state.capabilities.submit };
  const find = useCallback(() => setFinding(true), []);
  useFindKey(find);
  useTitle(state.title || firstPrompt(state), waits && live.state.capabilities.answer);
  useEffect(() => (live.isLoaded ? onNews() : undefined), [live.isLoaded, status, title, waits, onNews]);
  return (
    <ConversationContext value={facts}>
      <OpenStateContext value={openState}>
        {changes.place.kind === "review" && <ChangesInstead {...changes} title={state.title || firstPrompt(state)} />}
        {changes.place.kind === "file" && <FileInstead {...changes} />}
        <div className="conversation" data-panel={isPanelOpen || undefined} data-changes={changes.place.kind || undefined}>
          <ConversationHeader
            state={state}
            agentTitle={agentTitle}
            isLoaded={live.isLoaded}
            replay={replay}
            onMenu={onMenu}
            onFind={find}
            onPanel={() => setPanelOpen(!isPanelOpen)}
            changes={live.isLoaded && <ChangesToggle {...changes} />}
          />
          <ConnectionBanner live={live} />
          {live.isLoaded ? (
            <Thread
              key={shownRun?.run.id ?? ""}
              state={state}
              messages={shownRun?.messages ?? state.messages}
              isFinding={isFinding}
              onFound={() => setFinding(false)}
            />
          ) : (
            <Waiting live={live} />
          )}
          {live.isLoaded && <SidePanel state={state} isReplay={replay.isOn} onClose={() => setPanelOpen(false)} />}
          {changes.place.kind === "beside" && live.isLoaded && <ChangesBeside {...changes} />}
          <div className="foot">
            {refusal.message && (
              <p className="refusal" role="alert">
                <Revealed text={refusal.message} kind="speech" />
                <button type="button" className="quiet small" onClick={refusal.dismiss}>
                  Dismiss
                </button>
              </p>
            )}
            {replay.isOn ? (
              <ReplayBar replay={replay} />
            ) : (
              <>
                <RelayDock sessionId={sessionId} />
                {shownRun ? <RunBar run={shownRun.run} /> : live.isLoaded && <Composer state={state} connection={live.connection} chosen={chosen} />}
              </>
            )}
          </div>
        </div>
      </OpenStateContext>
    </ConversationContext>
  );
}

function Waiting({ live }: { live: LiveConversation }) {
  if (live.connection === "closed")
    return <Placeholder title="This conversation cannot be shown" text={live.closeReason || "The connection was closed."} />;
  if (live.connection === "waiting")
    return <Placeholder title="The server cannot be reached" text="Is “harness serve” still running? The page reconnects by itself." />;
  return <Placeholder title="" text="Loading…" isBusy />;
}

function useFacts(sessionId: string, live: LiveConversation, state: HarnessState, list: ChangeList | null, isReplay: boolean): ConversationFacts {
  const { client } = live;
  const { cwd } = state;
  const turns = list?.turns;
  const changedTurns = useMemo(() => new Map((turns ?? []).map((turn) => [turn.id, turn])), [turns]);
  const relays = useMemo(() => new Map(state.relays.map((relay): [string, HarnessRelay] => [relay.id, relay])), [state.relays]);
  const runs = useMemo(() => new Map(state.runs.map((run) => [run.id, run])), [state.runs]);
  const latest = useRef(state.messages);
  latest.current = state.messages;
  const messagesOf = useCallback((runId: string) => latest.current.filter((message) => message.role === "assistant" && message.runId === runId), []);
  const canGoBack = !isReplay && state.capabilities.branch;
  return useMemo(
    () => ({ sessionId, cwd, changedTurns, client, relays, runs, messagesOf, isReplay, canGoBack }),
    [sessionId, cwd, changedTurns, client, relays, runs, messagesOf, isReplay, canGoBack],
  );
}

const REFUSAL_SHOWN_MS = 12_000;

/** The error of a command that the server did not carry out. */
function useRefusal(live: LiveConversation): { readonly message: string; readonly dismiss: () => void } {
  const [message, setMessage] = useState("");
  const { transport } = live;
  useEffect(() => transport.onError(setMessage), [transport]);
  useEffect(() => {
    if (!message) return undefined;
    const timer = setTimeout(() => setMessage(""), REFUSAL_SHOWN_MS);
    return () => clearTimeout(timer);
  }, [message]);
  return { message, dismiss: () => setMessage("") };
}

/** The title of a page in the background shows that it needs a person. */
function useTitle(title: string, waits: boolean): void {
  useEffect(() => {
    document.title = [waits ? "Needs you" : "", inOneLine(title), "Harness"].filter(Boolean).join(" · ");
    return () => {
      document.title = "Harness";
    };
  }, [title, waits]);
}
