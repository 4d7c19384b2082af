// The official client of ACP against `harness acp`, or against the server: a prompt with a question, a stop, a list, and refusals.
// usage: node acp_client.mjs JSON, in a folder whose node_modules has @agentclientprotocol/sdk and ws
// JSON: {version, cwd, command?, url?, headers?, model?}. Prints what happened.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const wanted = JSON.parse(process.argv[2]);
const require = createRequire(`${process.cwd()}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const sdk = "@agentclientprotocol/sdk";
const acp = await load(wanted.version === 1 ? sdk : `${sdk}/experimental/v2`);
const report = { kinds: {}, asked: 0, refusals: {} };
const idle = [];
const working = [];

async function opened() {
  if (wanted.command) {
    const [program, ...options] = wanted.command;
    const child = spawn(program, options, { stdio: ["pipe", "pipe", "inherit"] });
    return { child, stream: acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)) };
  }
  const { headers, url } = wanted;
  if (url.startsWith("ws")) {
    const { createWebSocketStream } = await load(`${sdk}/experimental/ws-client`);
    const { default: WebSocket } = await load("ws");
    class WithHeaders extends WebSocket {
      constructor(address, protocols) {
        super(address, protocols, { headers });
      }
    }
    return { stream: await createWebSocketStream(url, { WebSocket: WithHeaders }) };
  }
  const { createHttpStream } = await load(`${sdk}/experimental/http-client`);
  return { stream: await createHttpStream(url, { headers }) };
}

const { child, stream } = await opened();
const app = acp
  .client({ name: "test" })
  .onNotification("session/update", ({ params: { update } }) => {
    report.kinds[update.sessionUpdate] = (report.kinds[update.sessionUpdate] ?? 0) + 1;
    if (update.sessionUpdate === "state_update" && update.state === "idle") idle.shift()?.(update.stopReason);
    if (JSON.stringify(update.rawInput ?? "").includes("sleep")) working.shift()?.();
  })
  .onRequest("session/request_permission", ({ params }) => {
    report.asked += 1;
    const { optionId } = params.options.find((one) => one.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId } };
  });

await app.connectWith(stream, async (client) => {
  const isFirst = wanted.version === 1;
  const greeting = isFirst
    ? { protocolVersion: 1, clientInfo: { name: "test", version: "0" }, clientCapabilities: {} }
    : { protocolVersion: 2, info: { name: "test", version: "0" }, capabilities: {} };
  report.version = (await client.request("initialize", greeting)).protocolVersion;
  const place = { cwd: wanted.cwd, mcpServers: [] };
  const { sessionId } = await client.request("session/new", place);
  if (wanted.model) {
    const value = { configId: "model", value: wanted.model };
    await client.request("session/set_config_option", { sessionId, ...value });
  }
  const prompt = async (text) => {
    const ended = new Promise((done) => idle.push(done));
    const answer = await client.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
    return isFirst ? answer.stopReason : ended;
  };
  report.first = await prompt("write");
  const begun = new Promise((done) => working.push(done));
  const stopped = prompt("sleep");
  await begun;
  await client.notify("session/cancel", { sessionId });
  report.second = await stopped;
  const { sessions } = await client.request("session/list", {});
  report.isListed = sessions.some((one) => one.sessionId === sessionId);
  for (const [method, parameters] of [
    ["session/resume", { ...place, sessionId: "nope" }],
    ["session/new", { ...place, cwd: "relative" }],
    ["session/prompt", { sessionId, prompt: [] }],
    ["no/such", {}],
  ]) {
    await client.request(method, parameters).catch((error) => (report.refusals[method] = error.code));
  }
  await client.request("session/close", { sessionId });
});
child?.kill();
console.log(JSON.stringify(report));
process.exit(0);
