// A recorded conversation of any length, written as a log into a server's home.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const LONG_ID = "01a1e34c-8e70-78f8-bce8-fa169cd05f76";
const START_MS = 1_794_800_000_000;

/** `turns` prompts, each with an answer of some paragraphs, a list, code, a read, a command and an edit. */
export function writeLongLog(home, turns) {
  const folder = join(home, ".local", "share", "harness", "sessions");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const lines = [];
  const event = (type, run, fields) => lines.push(JSON.stringify({ type, seq: lines.length, timestamp_ms: START_MS + lines.length * 500, run_id: run, ...fields }));
  for (let turn = 0; turn < turns; turn++) turnEvents(event, turn);
  writeFileSync(join(folder, `${LONG_ID}.ndjson`), `${lines.join("\n")}\n`, { mode: 0o600 });
  const metadata = { session_id: LONG_ID, agent: "Harness agent", agent_name: "native", prompt: "LONGLOG prompt 0", model: "scripted/x", cwd: home, start_time: String(START_MS / 1000), duration_ms: 6, success: true, outcome: "completed", version: "0.1.0", created_ms: START_MS, updated_ms: START_MS + lines.length * 500 };
  writeFileSync(join(folder, `${LONG_ID}.meta.json`), JSON.stringify(metadata), { mode: 0o600 });
}

function turnEvents(event, turn) {
  const run = `${LONG_ID.slice(0, -8)}${String(turn).padStart(8, "0")}`;
  event("SessionStart", run, { session_id: LONG_ID, agent: "native", model: "scripted/x", cwd: "/tmp", version: "0.1.0" });
  event("Message", run, { role: "user", text: `prompt ${turn}: what about part ${turn % 7}?` });
  if (turn % 3 === 0) {
    event("ToolCallStart", run, { id: `read-${turn}`, name: "read", input: { filePath: `src/part_${turn}.py` }, operations: [{ kind: "read", path: `src/part_${turn}.py` }] });
    event("ToolCallEnd", run, { id: `read-${turn}`, name: "read", success: true, output: "a = 1\nb = 2\n", operations: [{ kind: "read", path: `src/part_${turn}.py`, success: true }] });
    event("ToolCallStart", run, { id: `bash-${turn}`, name: "bash", input: { command: `pytest -k part_${turn}` } });
    event("ToolCallEnd", run, { id: `bash-${turn}`, name: "bash", success: true, output: "3 passed\n" });
  }
  const code = turn % 2 ? "" : "\n```python\ndef part(number: int) -> str:\n    # one of many\n    return f\"part {number}\"\n```\n";
  const needle = turn === 17 ? " The needle is here." : "";
  event("Message", run, { role: "assistant", text: `Answer ${turn}: the **part** is used in \`src/part_${turn}.py\`, and that is all there is to say about it.${needle}\n\n${"It is read once, then changed, then tested again. ".repeat(1 + (turn % 5))}\n\n- first\n- second ${turn}\n${code}${turn === 19 ? `${"One more paragraph.\n\n".repeat(80)}Here is the far match.\n\n${"And more.\n\n".repeat(40)}` : ""}`, id: `message-${turn}` });
  event("Result", run, { success: true, outcome: "completed", text: "", duration_ms: 1_500, stop_reason: "end", turns: 1, log_id: LONG_ID });
}
