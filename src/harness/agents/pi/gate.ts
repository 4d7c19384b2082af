// Pi has no permissions of its own: this extension makes every call wait for an answer, also one that only reads: it may
// read elsewhere.
// Loaded with `pi --mode rpc -e gate.ts`; `pi_rpc.py` is the other side. Whatever goes wrong here blocks the call.
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

const OWN = new Set(["ask_user"]);

function parsed(reply: string | undefined): { approved?: boolean; reason?: string } {
  try {
    return JSON.parse(reply ?? "{}") ?? {};
  } catch {
    return {};
  }
}

export default function (pi: ExtensionAPI) {
  // No prompt is sent before this was seen: a gate that did not load would let everything pass.
  pi.on("session_start", (_event, ctx) => ctx.ui.setStatus("harness:gate", "ready"));

  pi.on("tool_call", async (event, ctx) => {
    if (OWN.has(event.toolName)) return undefined;
    const asked = { call: event.toolCallId, tool: event.toolName, input: event.input };
    const reply = await ctx.ui.input("harness:permission " + JSON.stringify(asked), "", { signal: ctx.signal });
    const { approved, reason } = parsed(reply);
    return approved === true ? undefined : { block: true, reason: reason || "The user did not allow this call." };
  });
}
