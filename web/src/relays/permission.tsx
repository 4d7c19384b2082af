import { useMemo, useState } from "react";
import type { HarnessFilePreview, HarnessRelay, HarnessRelayOption, HarnessToolCall, JSONValue } from "../../client/src/index.js";
import { useConversation } from "../conversation/context.js";
import { TallBox } from "../shell/tall_box.js";
import { patchLines } from "../text/line_diff.js";
import { Revealed } from "../text/revealed.js";
import { changeOf } from "../tools/change.js";
import { DiffView } from "../tools/diff_view.js";
import { besideCommand, commandIn, textIn } from "./payload.js";
import { useSent } from "./use_sent.js";

/** A question that says nothing of what could be granted can be answered for once only. */
const ONCE: HarnessRelayOption = { id: "", kind: "allow-once", label: "Allow once", grants: [] };

export function Permission({ relay }: { relay: HarnessRelay }) {
  const { client } = useConversation();
  const [isDenying, setDenying] = useState(false);
  const [isSent, setSent] = useSent();
  const allow = (option: HarnessRelayOption) => {
    setSent(true);
    client.approve(relay.id, { optionId: option.id });
  };
  const deny = (reason: string) => {
    setSent(true);
    client.deny(relay.id, reason);
  };
  const options = optionsOf(relay);
  return (
    <div>
      <p className="ask-title">
        <Revealed text={relay.question || `Allow ${relay.toolName || "this"}?`} />
      </p>
      <Preview relay={relay} />
      {isDenying ? (
        <Denial isSent={isSent} onDeny={deny} onBack={() => setDenying(false)} />
      ) : (
        <div className="ask-buttons">
          {options.filter(isOnce).map((option) => (
            <button key={option.id} type="button" className="button primary" disabled={isSent} onClick={() => allow(option)}>
              Allow once
            </button>
          ))}
          <button type="button" className="button" disabled={isSent} onClick={() => setDenying(true)}>
            Deny…
          </button>
          {options
            .filter((option) => option.kind === "allow-always")
            .map((option) => (
              <button key={option.id} type="button" className="button always" disabled={isSent} onClick={() => allow(option)}>
                <AlwaysLabel label={option.label} />
              </button>
            ))}
        </div>
      )}
    </div>
  );
}

function optionsOf({ options }: HarnessRelay): readonly HarnessRelayOption[] {
  const offered: readonly (string | HarnessRelayOption)[] = options ?? [];
  const known = offered.filter((option): option is HarnessRelayOption => typeof option === "object");
  return known.some(isOnce) ? known : [ONCE, ...known];
}

const isOnce = (option: HarnessRelayOption) => option.kind === "allow-once";

/** What is granted stands out from the words before it. */
function AlwaysLabel({ label }: { label: string }) {
  const shortened = label.replace(/␊{4,}/g, (marks) => `␊×${marks.length}`); // spelled out by the server
  const [, words = "", granted = shortened] = /^(Always allow )([^]*)$/.exec(shortened) ?? [];
  return (
    <span>
      {words}
      <span className="granted">
        <Revealed text={granted} />
      </span>
    </span>
  );
}

function Denial({ isSent, onDeny, onBack }: { isSent: boolean; onDeny: (reason: string) => void; onBack: () => void }) {
  const [reason, setReason] = useState("");
  return (
    <form className="ask-buttons" onSubmit={(event) => (event.preventDefault(), onDeny(reason.trim()))}>
      <input
        autoFocus
        value={reason}
        placeholder="Why not? The agent will read this (optional)"
        aria-label="Reason"
        onChange={(event) => setReason(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), onBack())}
      />
      <button type="submit" className="button stop" disabled={isSent}>
        Deny
      </button>
      <button type="button" className="button" onClick={onBack}>
        Back
      </button>
    </form>
  );
}

/** What it is that would happen: the command, the change, or else the arguments. */
function Preview({ relay }: { relay: HarnessRelay }) {
  const change = useMemo(() => changeOf(asCall(relay)), [relay]);
  const command = commandIn(relay.input);
  if (command)
    return (
      <>
        <TallBox label="Command">
          <pre className="command">
            <Revealed text={command} />
          </pre>
        </TallBox>
        <RawInput input={besideCommand(relay.input)} />
      </>
    );
  if (relay.preview?.length) return relay.preview.map((file, index) => <FilePreview key={index} file={file} />);
  const path = textIn(relay.input, ["path", "file_path", "filePath", "filename"]);
  return (
    <>
      {path && (
        <p className="path">
          <Revealed text={path} />
        </p>
      )}
      {change.length > 0 ? <DiffView lines={change} /> : <RawInput input={relay.input} />}
    </>
  );
}

const CHANGES = { create: "New file", update: "Changes", delete: "Deletes" } as const;

/** What becomes of a file, and what of it goes away. */
function FilePreview({ file }: { file: HarnessFilePreview }) {
  const lines = useMemo(() => patchLines(file.diff), [file.diff]);
  const counted = (count: number) => `${count} ${count === 1 ? "line" : "lines"}`;
  return (
    <>
      <p className="file-change">
        {CHANGES[file.change] ?? file.change}{" "}
        <span className="path">
          <Revealed text={file.path} />
        </span>
        {file.removed > 0 && <span className="bad">{counted(file.removed)} removed</span>}
        {file.added > 0 && <span className="good">{counted(file.added)} added</span>}
      </p>
      {lines.length > 0 && <DiffView lines={lines} hiddenCount={file.hiddenLines} />}
    </>
  );
}

function RawInput({ input }: { input: JSONValue }) {
  if (input === null || (typeof input === "object" && !Object.keys(input).length)) return null;
  return (
    <TallBox label="Arguments">
      <pre className="arguments">
        <Revealed text={typeof input === "string" ? input : JSON.stringify(input, null, 2)} />
      </pre>
    </TallBox>
  );
}

function asCall(relay: HarnessRelay): HarnessToolCall {
  return { id: relay.callId, name: relay.toolName, status: "running", input: relay.input };
}
