// Feeds streams through the pipeline of the official client, and says what it refused.
// usage: node agui_client.mjs < streams.json, in a folder whose node_modules has @ag-ui/client and rxjs
import fs from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.cwd()}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const client = await load("@ag-ui/client");
const { from } = await load("rxjs");
const AbstractAgent = client.AbstractAgent ?? client.default.AbstractAgent;
console.error = console.warn = () => {};

class Replay extends AbstractAgent {
  run() {
    return from(this.stream);
  }
}

async function refusal(agent, stream, more = {}) {
  agent.stream = stream;
  let isRunError = false;
  try {
    await agent.runAgent({ runId: stream[0]?.runId, ...more }, { onRunErrorEvent: () => void (isRunError = true) });
  } catch (error) {
    return isRunError ? null : String(error.message ?? error);
  }
  return null;
}

const answers = (agent) =>
  (agent.pendingInterrupts ?? []).map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } }));

const report = { streams: 0, refused: [], controls: {}, withoutResume: null };
for (const parts of JSON.parse(fs.readFileSync(0, "utf8"))) {
  const agent = new Replay({ threadId: parts[0]?.[0]?.threadId ?? "t" });
  for (const stream of parts) {
    const resume = answers(agent);
    if (resume.length && report.withoutResume === null) {
      report.withoutResume = (await refusal(agent, stream)) ?? "accepted";
    }
    const words = await refusal(agent, stream, resume.length ? { resume } : {});
    report.streams += 1;
    if (words !== null) report.refused.push(words);
    for (const type of ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "TOOL_CALL_START", "TOOL_CALL_END"]) {
      const place = stream.findIndex((event) => event.type === type);
      const control = (report.controls[type] ??= { tried: 0, refused: 0 });
      if (place < 0 || control.tried >= 4 || stream.at(-1).type === "RUN_ERROR") continue;
      control.tried += 1;
      const broken = await refusal(new Replay({ threadId: "c" }), stream.filter((_, at) => at !== place));
      control.refused += broken === null ? 0 : 1;
    }
  }
}
fs.writeSync(1, JSON.stringify(report));
process.exit(0);
