// A tool with which Pi's model can ask the user. Loaded with `pi --mode rpc -e question.ts`; see `pi_rpc.py`.
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

const PARAMETERS = {
  type: "object",
  properties: {
    question: { type: "string", description: "What to ask" },
    options: { type: "array", items: { type: "string" }, description: "Answers to choose from; another one can be given" },
  },
  required: ["question"],
};

function answerOf(reply: string | undefined): string {
  try {
    const { approved, answer, reason } = JSON.parse(reply ?? "{}");
    return approved === true ? String(answer) : reason || "The user did not answer.";
  } catch {
    return "The user did not answer.";
  }
}

export default function (pi: ExtensionAPI) {
  pi.registerTool({
    name: "ask_user",
    label: "Ask",
    description: "Ask the user a question and wait for the answer. Use it when a decision is the user's.",
    parameters: PARAMETERS as any,
    async execute(call, params: any, signal, _onUpdate, ctx) {
      const asked = { call, question: params.question, options: params.options ?? [] };
      const reply = await ctx.ui.input("harness:question " + JSON.stringify(asked), "", { signal });
      return { content: [{ type: "text", text: answerOf(reply) }], details: {} };
    },
  });
}
