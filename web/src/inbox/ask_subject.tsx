/** What a question is about: the command, the change of files, or the arguments. What cannot be seen is drawn as a label. */

import { useMemo, useState } from "react";
import type { HarnessFilePreview, JSONValue } from "../../client/src/index.js";
import { TallBox } from "../shell/tall_box.js";
import { Revealed } from "../text/revealed.js";
import { Delta } from "./facts.js";
import { numberedLines, partnersOf, replacesAll, type PatchLine } from "./patch.js";
import { shortPath } from "./facts.js";
import { inOneLine } from "../text/unseen.js";
import { isFields } from "./question.js";
import { DiffText, languageOf } from "../changes/diff_text.js";
import { useReadPart } from "./reading.js";
import type { AskCall, AskMark, RowAsk } from "./row.js";

/** The text in its logical order, with the server's marks as labels. */
export function MarkedText({ text, marks }: { readonly text: string; readonly marks: readonly AskMark[] }) {
  if (!marks.length) return <Revealed text={text} />;
  const pieces = [];
  let from = 0;
  for (const { start, end, label } of marks) {
    if (start < from) continue;
    if (start > from) pieces.push(<Revealed key={from} text={text.slice(from, start)} />);
    pieces.push(
      <span key={`mark-${start}`} className="hid">
        {label}
      </span>,
    );
    from = end;
  }
  return (
    <>
      {pieces}
      {from < text.length && <Revealed text={text.slice(from)} />}
    </>
  );
}

export function isCommand(ask: AskCall): boolean {
  return ask.operations[0]?.kind === "command" || ask.title === "run a command";
}

/** A change of files has a preview; a command its line; a tool its arguments. */
export function AskSubject({ ask, isWhole, cwd }: { readonly ask: AskCall; readonly isWhole: boolean; readonly cwd: string }) {
  const given = useMemo(() => argumentsIn(ask), [ask]);
  const [wasShown, setShown] = useState(isWhole);
  if (isWhole && !wasShown) setShown(true);
  useReadPart(wasShown || !ask.preview?.length);
  if (ask.preview?.length) return isWhole ? ask.preview.map((file, index) => <FileChange key={index} file={file} cwd={cwd} />) : null;
  if (given) return <Arguments given={given} />;
  if (!ask.subject || ask.title.endsWith(ask.subject)) return null;
  return (
    <TallBox key={ask.isCut ? "cut" : "whole"} label={isCommand(ask) ? "Command" : "What it is about"}>
      <pre className="command">
        {isCommand(ask) && <span className="p">$ </span>}
        <MarkedText text={ask.subject} marks={ask.marks} />
      </pre>
    </TallBox>
  );
}

/** Every call that one answer is for, one below the other. */
export function FurtherCalls({ ask, isWhole, cwd }: { readonly ask: RowAsk; readonly isWhole: boolean; readonly cwd: string }) {
  if (!ask.further.length) return null;
  return (
    <ol className="further-calls" start={2} aria-label="The same answer is for these calls too">
      {ask.further.map((call, index) => (
        <li key={index}>
          <p className="ask-what">
            {index + 2} of {ask.further.length + 1}: <b>{inOneLine(call.title)}</b>
            {call.preview?.length ? <ChangeCounts files={call.preview} /> : null}
          </p>
          <AskSubject ask={call} isWhole={isWhole} cwd={cwd} />
          {call.more.length > 0 && <MoreArguments more={call.more} />}
        </li>
      ))}
    </ol>
  );
}

function argumentsIn({ operations, subject, marks }: AskCall): { readonly [name: string]: JSONValue } | null {
  if (operations.length || marks.length || !subject.startsWith("{")) return null;
  try {
    const given = JSON.parse(subject) as JSONValue;
    return isFields(given) ? given : null;
  } catch {
    return null;
  }
}

const SECRET = /secret|token|password|passwd|credential|api_?key|private/i;
const LONG = 400;

function Arguments({ given }: { readonly given: { readonly [name: string]: JSONValue } }) {
  return (
    <table className="data arguments-table">
      <caption className="unseen">Arguments</caption>
      <tbody>
        {Object.entries(given).map(([name, value]) => (
          <tr key={name}>
            <th scope="row">
              <Revealed text={name} />
            </th>
            <td>
              <Argument name={name} text={typeof value === "string" ? value : JSON.stringify(value)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Argument({ name, text }: { readonly name: string; readonly text: string }) {
  const [isShown, setShown] = useState(!SECRET.test(name));
  useReadPart(isShown);
  if (isShown && (text.length > LONG || text.includes("\n")))
    return (
      <TallBox key={text.length} label={name}>
        <pre className="command">
          <Revealed text={text} />
        </pre>
      </TallBox>
    );
  if (isShown)
    return (
      <code>
        <Revealed text={text} />
      </code>
    );
  return (
    <>
      <code aria-hidden="true">••••••••••</code>{" "}
      <span className="faint small">
        hidden · {text.length.toLocaleString("en")} characters ·{" "}
        <button type="button" className="link" onClick={() => setShown(true)}>
          show
        </button>
      </span>
    </>
  );
}

/** What the call is given besides what is shown above. */
export function MoreArguments({ more }: { readonly more: RowAsk["more"] }) {
  return (
    <dl className="more-arguments small">
      {more.map(([name, value]) => (
        <div key={name}>
          <dt>
            <Revealed text={name} />
          </dt>
          <dd>
            <Argument name={name} text={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const counted = (count: number) => `${count.toLocaleString("en")} ${count === 1 ? "line" : "lines"}`;

/** “+38 −41 · replaces all 41 lines”. */
export function ChangeCounts({ files }: { readonly files: readonly HarnessFilePreview[] }) {
  const [added, removed] = [files.reduce((sum, file) => sum + file.added, 0), files.reduce((sum, file) => sum + file.removed, 0)];
  const only = files.length === 1 ? files[0]! : null;
  const isAll = useMemo(() => !!only && only.change === "update" && replacesAll(numberedLines(only.diff), only.hiddenLines), [only]);
  const loss = only?.change === "delete" ? `${counted(removed)} go` : isAll ? `replaces all ${counted(removed)}` : "";
  return (
    <span className="ask-change">
      <Delta added={added} removed={removed} />
      {loss && <span className="bad small">{loss}</span>}
    </span>
  );
}

const CHANGES = { create: "New file", update: "Changes", delete: "Deletes", move: "Moves" } as const;
const LINES_AT_ONCE = 400;
const SIGNS = { same: "", added: "+", removed: "−", place: "" } as const;
const SPOKEN = { same: "", added: "added ", removed: "removed ", place: "" } as const;

function FileChange({ file, cwd }: { readonly file: HarnessFilePreview; readonly cwd: string }) {
  const lines = useMemo(() => numberedLines(file.diff), [file.diff]);
  const partners = useMemo(() => partnersOf(lines), [lines]);
  const [count, setCount] = useState(LINES_AT_ONCE);
  const language = languageOf(file.path);
  const isMore = count < lines.length;
  return (
    <figure className="table file-diff">
      <figcaption className="diff-head">
        <span>{CHANGES[file.change] ?? file.change}</span>{" "}
        <code className="clip" title={file.path}>
          <Revealed text={shortPath(file.path, cwd)} />
        </code>
        <Delta added={file.added} removed={file.removed} />
      </figcaption>
      {lines.length > 0 && (
        <TallBox key={file.hiddenLines} label={`Change of ${file.path}`} className="diff-scroll" isMore={isMore} onEnd={() => setCount(count + LINES_AT_ONCE)}>
          <table className="patch">
            <colgroup>
              <col className="n" />
              <col className="n" />
              <col className="s" />
              <col />
            </colgroup>
            <tbody>
              {lines.slice(0, count).map((line, index) => (
                <Line key={index} line={line} partner={partners.get(line) ?? null} language={language} />
              ))}
            </tbody>
          </table>
        </TallBox>
      )}
      {(isMore || file.hiddenLines > 0) && (
        <p className="diff-more">{isMore ? `${counted(lines.length - count)} below: scroll` : `${counted(file.hiddenLines)} more`}</p>
      )}
    </figure>
  );
}

function Line({ line, partner, language }: { readonly line: PatchLine; readonly partner: string | null; readonly language: string }) {
  if (line.kind === "place")
    return (
      <tr className="place">
        <td colSpan={4}>
          <Revealed text={line.text} />
        </td>
      </tr>
    );
  return (
    <tr className={line.kind}>
      <td className="n">{line.before}</td>
      <td className="n">{line.after}</td>
      <td className="s" aria-hidden="true">
        {SIGNS[line.kind]}
      </td>
      <td className="t">
        {SPOKEN[line.kind] && <span className="unseen">{SPOKEN[line.kind]}</span>}
        <DiffText text={line.text} language={language} partner={partner} isOld={line.kind === "removed"} />
      </td>
    </tr>
  );
}
