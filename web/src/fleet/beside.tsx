/** Two attempts at one task: what they changed, side by side, and the step from which they did different things. */

import { useMemo, type RefObject } from "react";
import { splitLines, unifiedLines } from "../changes/diff_lines.js";
import { DiffTable } from "../changes/diff_table.js";
import "../changes/changes.css";
import { Delta } from "../inbox/facts.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { fleetApi, useAsked, type RunStep } from "./fleet_api.js";
import { caseTitle, caseWords, type FleetCase, type FleetView } from "./fleet_state.js";
import { filesOfPatch, type PatchFile } from "./patch.js";

interface BesideProps {
  readonly view: FleetView;
  readonly left: FleetCase;
  readonly right: FleetCase | null;
  readonly scroller: RefObject<HTMLElement | null>;
  readonly onClose: () => void;
}

/** With one attempt: what it changed. */
export function Beside({ view, left, right, scroller, onClose }: BesideProps) {
  return (
    <section className="fleet-panel fleet-wide" aria-labelledby="fleet-beside">
      <div className="fleet-panel-head">
        <h2 id="fleet-beside">{right ? "Two attempts" : "What it changed"}</h2>
        {right && (
          <button type="button" className="square small" aria-label="Close the second attempt" title="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        )}
      </div>
      <div className="fleet-beside" data-single={!right || undefined}>
        <Side view={view} one={left} scroller={scroller} isSplit={!right} />
        {right && <Side view={view} one={right} scroller={scroller} isSplit={false} />}
      </div>
      {right && <Steps name={view.summary.name} left={left} right={right} repeats={view.repeats} />}
    </section>
  );
}

interface SideProps {
  readonly view: FleetView;
  readonly one: FleetCase;
  readonly scroller: RefObject<HTMLElement | null>;
  readonly isSplit: boolean;
}

function Side({ view, one, scroller, isSplit }: SideProps) {
  const { answer } = useAsked((signal) => fleetApi.case(view.summary.name, one.id, signal), `${one.id} ${one.attempts}`);
  const details = answer?.id === one.id ? answer : null;
  const files = useMemo(() => filesOfPatch(details?.patch ?? ""), [details?.patch]);
  const title = inOneLine(caseTitle(one, view.repeats), "code");
  return (
    <div className="fleet-side" role="group" aria-label={title}>
      <h3 className="clip">{title}</h3>
      <p className="tiny faint">{inOneLine(caseWords(one))}</p>
      {details && !files.length && <p className="small faint">It changed nothing.</p>}
      {details?.isPatchCut && <p className="small wait">The patch is longer than what is shown here.</p>}
      {files.map((file) => (
        <ChangedFile key={file.path} file={file} scroller={scroller} isSplit={isSplit} />
      ))}
    </div>
  );
}

const nothing = () => undefined;

function ChangedFile({ file, scroller, isSplit }: { readonly file: PatchFile; readonly scroller: RefObject<HTMLElement | null>; readonly isSplit: boolean }) {
  const canSplit = isSplit && file.change === "M" && window.innerWidth >= 1100;
  const lines = useMemo(() => (canSplit ? splitLines : unifiedLines)(file.rows), [canSplit, file.rows]);
  return (
    <div className="fleet-file">
      <div className="fleet-file-head">
        <code className="clip">{inOneLine(file.path, "code")}</code>
        <Delta added={file.added} removed={file.removed} />
      </div>
      {file.isBinary ? (
        <p className="small faint">It is no text.</p>
      ) : (
        <div className="fleet-frame" tabIndex={0} role="group" aria-label={`Changes of ${inOneLine(file.path)}, scrolls`}>
          <DiffTable path={file.path} lines={lines} isSplit={canSplit} isWrapped={false} scroller={scroller} cursor={-1} asked={0} onLine={nothing} onExpand={null} below={null} />
        </div>
      )}
    </div>
  );
}

const STEPS_SHOWN = 60;

function Steps({ name, left, right, repeats }: { readonly name: string; readonly left: FleetCase; readonly right: FleetCase; readonly repeats: number }) {
  const { answer, problem } = useAsked((signal) => fleetApi.diff(name, left.id, right.id, signal), `${left.id} ${right.id} ${left.attempts} ${right.attempts}`);
  if (problem) return <p className="small faint">{inOneLine(problem.message)}.</p>;
  if (!answer) return null;
  const { firstDifference, steps } = answer;
  const from = firstDifference ?? 0;
  const shown = steps.slice(from, from + STEPS_SHOWN);
  return (
    <>
      <h3>Where they part</h3>
      <p className="small soft">{firstDifference === null ? `The same ${steps.length} steps.` : firstDifference === 0 ? "They differ from the first step on." : `The same for ${firstDifference} ${firstDifference === 1 ? "step" : "steps"}, then:`}</p>
      {firstDifference !== null && (
        <div className="fleet-frame" tabIndex={0} role="group" aria-label="Steps of both runs">
          <table className="data fleet-steps">
            <thead>
              <tr>
                <th scope="col">{inOneLine(caseTitle(left, repeats), "code")}</th>
                <th scope="col">{inOneLine(caseTitle(right, repeats), "code")}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map(({ a, b }, index) => (
                <tr key={index} data-same={(a && b && a.text === b.text) || undefined}>
                  <Step step={a} />
                  <Step step={b} />
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {steps.length - from - shown.length + answer.leftOut > 0 && <p className="small faint">{steps.length - from - shown.length + answer.leftOut} more steps</p>}
    </>
  );
}

function Step({ step }: { readonly step: RunStep | null }) {
  if (!step) return <td />;
  return (
    <td>
      <code>{inOneLine(step.text, "code")}</code>
      {step.success === false && <span className="bad"> failed</span>}
    </td>
  );
}
