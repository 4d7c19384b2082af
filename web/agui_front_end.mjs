// A front end of AG-UI: the official client against our server. argv: {url, token, threadId, prompt, approved, runs}
import { HttpAgent } from "@ag-ui/client";

const wanted = JSON.parse(process.argv[2]);
const headers = { Authorization: `Bearer ${wanted.token}` };
const agent = new HttpAgent({ url: wanted.url, headers, threadId: wanted.threadId });
const kinds = [];
const interrupts = [];
const subscriber = {
  onEvent: ({ event }) => void kinds.push(event.type),
  onRunFinishedEvent: ({ event }) => {
    if (event.outcome?.type === "interrupt") interrupts.push(...event.outcome.interrupts);
  },
};
agent.addMessage({ id: "u1", role: "user", content: wanted.prompt });
await agent.runAgent({ runId: "first" }, subscriber);
let withoutResume = "";
if (interrupts.length) {
  try {
    await agent.runAgent({ runId: "wrong" }, subscriber);
  } catch (error) {
    withoutResume = String(error.message ?? error);
  }
  const resume = interrupts.map((one) => ({
    interruptId: one.id,
    status: "resolved",
    payload: { approved: wanted.approved },
  }));
  await agent.runAgent({ runId: "second", resume }, subscriber);
}
agent.addMessage({ id: "u2", role: "user", content: "and now?" });
await agent.runAgent({ runId: "third" }, subscriber);
const messages = agent.messages.map((one) => [one.role, typeof one.content === "string" ? one.content : ""]);
console.log(JSON.stringify({ kinds, interrupts, withoutResume, messages }));
