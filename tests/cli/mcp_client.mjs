// The official client of MCP against `harness mcp`: it lists tools, and runs an agent that asks.
// usage: node mcp_client.mjs JSON, in a folder whose node_modules has @modelcontextprotocol/client. JSON: {mode, command, cwd}
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const wanted = JSON.parse(process.argv[2]);
const require = createRequire(`${process.cwd()}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { Client } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");

const [command, ...args] = wanted.command;
const transport = new StdioClientTransport({ command, args, cwd: wanted.cwd, env: process.env });
const capabilities = { elicitation: { form: {} } };
const client = new Client(
  { name: "test", version: "0" },
  { capabilities, ...(wanted.mode === "auto" ? { versionNegotiation: { mode: "auto" } } : {}) },
);
const report = { asked: 0, progress: 0 };
client.setRequestHandler("elicitation/create", async ({ params }) => {
  report.asked += 1;
  return { action: "accept", content: { answer: params.requestedSchema.properties.answer.enum[0] } };
});
await client.connect(transport);
report.version = client.getNegotiatedProtocolVersion();
report.tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = { name: "run_agent", arguments: { prompt: "write" } };
const done = await client.callTool(call, { onprogress: () => (report.progress += 1) });
report.outcome = done.structuredContent.outcome;
report.text = done.structuredContent.text;
report.refused = await client.callTool({ name: "no_such", arguments: {} }).then(
  () => "",
  (error) => String(error.code ?? error),
);
await client.close();
console.log(JSON.stringify(report));
process.exit(0);
