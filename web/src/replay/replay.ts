/** A conversation as it was at any moment of its past. */

import { useCallback, useEffect, useRef, useState } from "react";
import type { HarnessState } from "../../client/src/index.js";
import { api, type RequestFailed, type Timeline } from "../api.js";

export interface Replay {
  readonly isOn: boolean;
  readonly toggle: () => void;
  /** Null while the present is shown. */
  readonly state: HarnessState | null;
  readonly timeline: Timeline | null;
  readonly position: number;
  readonly seek: (position: number) => void;
  readonly isPlaying: boolean;
  readonly play: (isPlaying: boolean) => void;
  readonly problem: string;
}

const STEP_MS = 120;
const KEPT_MAX = 200;

export function useReplay(sessionId: string, seqNow: number): Replay {
  const [isOn, setOn] = useState(false);
  const [timeline, setTimeline] = useState<Timeline | null>(null);
  const [position, setPosition] = useState(0);
  const [isPlaying, setPlaying] = useState(false);
  const [problem, setProblem] = useState("");
  const last = (timeline?.seqs.length ?? 0) - 1;
  const toggle = useCallback(() => {
    setOn((on) => !on);
    setTimeline(null);
    setPlaying(false);
    setProblem("");
  }, []);
  useEffect(() => {
    if (!isOn || timeline || seqNow === 0) return undefined;
    const abort = new AbortController();
    api.timeline(sessionId, abort.signal).then(
      (found) => {
        setTimeline(found);
        setPosition(Math.max(0, found.seqs.length - 1));
      },
      (error: RequestFailed) => !abort.signal.aborted && setProblem(error.message),
    );
    return () => abort.abort();
  }, [isOn, timeline, sessionId, seqNow]);
  const { state, isBehind } = useStateAt(sessionId, isOn ? timeline?.seqs[position] : undefined, setProblem);
  useEffect(() => {
    if (!isPlaying || isBehind) return undefined;
    if (position >= last) {
      setPlaying(false);
      return undefined;
    }
    const timer = setTimeout(() => setPosition(position + 1), STEP_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, isBehind, position, last]);
  const seek = useCallback((to: number) => {
    setPlaying(false);
    setPosition(to);
  }, []);
  const play = useCallback(
    (playing: boolean) => {
      if (playing) setPosition((at) => (at >= last ? 0 : at));
      setPlaying(playing);
    },
    [last],
  );
  return { isOn, toggle, state: isOn ? state : null, timeline, position, seek, isPlaying, play, problem };
}

/** The newest answer that has come; while the wanted one is on its way, one request at a time is made. */
function useStateAt(
  sessionId: string,
  seq: number | undefined,
  onProblem: (message: string) => void,
): { readonly state: HarnessState | null; readonly isBehind: boolean } {
  const kept = useRef(new Map<number, HarnessState>());
  const [shown, setShown] = useState<{ seq: number; state: HarnessState } | null>(null);
  const [busy, setBusy] = useState<number | null>(null);
  useEffect(() => {
    if (seq === undefined) {
      setShown(null);
      return;
    }
    const known = kept.current.get(seq);
    if (known) {
      setShown({ seq, state: known });
      return;
    }
    if (busy !== null) return; // asked again when that answer has come
    setBusy(seq);
    api
      .stateAt(sessionId, seq)
      .then(
        ({ state }) => {
          if (kept.current.size >= KEPT_MAX) kept.current.clear();
          kept.current.set(seq, state);
          setShown({ seq, state });
        },
        (error: RequestFailed) => onProblem(error.message),
      )
      .finally(() => setBusy(null));
  }, [sessionId, seq, busy, onProblem]);
  return { state: seq === undefined ? null : (shown?.state ?? null), isBehind: shown?.seq !== seq };
}
