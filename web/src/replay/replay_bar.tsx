import { clockTime, duration } from "../amounts.js";
import { Icon } from "../shell/icon.js";
import type { Replay } from "./replay.js";

export function ReplayBar({ replay }: { replay: Replay }) {
  const { timeline, position, isPlaying } = replay;
  const last = (timeline?.seqs.length ?? 0) - 1;
  const time = timeline?.times[position];
  const begin = timeline?.times[0];
  const elapsed = time === undefined || begin === undefined ? "" : duration(time - begin);
  return (
    <div className="replay" role="group" aria-label="Replay">
      <button
        type="button"
        className="round quiet"
        disabled={last < 1}
        onClick={() => replay.play(!isPlaying)}
        aria-label={isPlaying ? "Pause" : "Play"}
        title={isPlaying ? "Pause" : "Play"}
      >
        <Icon name={isPlaying ? "pause" : "play"} />
      </button>
      <input
        type="range"
        min={0}
        max={Math.max(0, last)}
        value={position}
        disabled={last < 1}
        onChange={(event) => replay.seek(Number(event.target.value))}
        aria-label="Moment"
        aria-valuetext={time === undefined ? undefined : `${clockTime(time)}, ${elapsed} after the beginning`}
      />
      <output className="replay-time">
        {time === undefined ? "…" : clockTime(time)} <span className="faint">+{elapsed}</span>
      </output>
      <button type="button" className="button" onClick={replay.toggle}>
        Back to now
      </button>
      {replay.problem && <p className="problem">{replay.problem}</p>}
    </div>
  );
}
