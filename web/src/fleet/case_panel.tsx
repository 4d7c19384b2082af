/** One case: what came of it, its attempts, and the way to its conversation, its changes, and another attempt beside it. */

import { useEffect, useRef } from "react";
import { cost, count, shortTime } from "../amounts.js";
import { changesAddress, sessionAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { TallBox } from "../shell/tall_box.js";
import { Revealed } from "../text/revealed.js";
import { inOneLine } from "../text/unseen.js";
import { fleetApi, useAsked, type CaseAttempt } from "./fleet_api.js";
import { caseTitle, caseWords, faultWords, seconds, type FleetCase, type FleetView } from "./fleet_state.js";

interface CasePanelProps {
  readonly view: FleetView;
  readonly one: FleetCase;
  readonly beside: string;
  readonly onBeside: (id: string) => void;
  readonly onClose: () => void;
}

export function CasePanel({ view, one, beside, onBeside, onClose }: CasePanelProps) {
  const panel = useRef<HTMLElement>(null);
  const { name } = view.summary;
  const { answer, problem } = useAsked((signal) => fleetApi.case(name, one.id, signal), `${one.id} ${one.state} ${one.attempts}`);
  const details = answer?.id === one.id ? answer : null;
  const others = view.cases.filter((other) => other.task === one.task && other.id !== one.id && other.attempts > 0);
  useEffect(() => panel.current?.querySelector<HTMLElement>("h2")?.focus(), [one.id]);
  const hasSession = !!one.session && (details?.hasSession ?? one.state === "running");
  return (
    <section ref={panel} className="fleet-panel fleet-case" aria-labelledby="fleet-case">
      <div className="fleet-panel-head">
        <h2 id="fleet-case" tabIndex={-1}>
          {inOneLine(caseTitle(one, view.repeats), "code")}
        </h2>
        <button type="button" className="square small" aria-label="Close this case" title="Close (Esc)" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <p className="small" data-state={one.state}>
        {inOneLine(caseWords(one)).replace(/^./, (letter) => letter.toUpperCase())}
      </p>
      <div className="fleet-actions">
        {hasSession && (
          <>
            <a className="button" href={sessionAddress(one.session)}>
              Open conversation
            </a>
            <a className="button" href={changesAddress(one.session)}>
              <Icon name="diff" /> Changes
            </a>
          </>
        )}
        {others.length > 0 && one.attempts > 0 && (
          <select className="fleet-pick" aria-label="Show another attempt at this task beside it" value={beside} onChange={(event) => onBeside(event.target.value)}>
            <option value="">Beside another attempt…</option>
            {others.map((other) => (
              <option key={other.id} value={other.id}>
                {inOneLine(caseTitle(other, view.repeats), "code")}
              </option>
            ))}
          </select>
        )}
      </div>
      {details && !details.hasSession && details.attempts.length > 0 && <p className="small faint">Its conversation is not in the store of this server.</p>}
      {problem && <p className="small bad">{inOneLine(`${problem.message} ${problem.hint}`)}</p>}
      {details && (
        <>
          <h3>Task</h3>
          <TallBox label="Prompt" className="fleet-text">
            <Revealed text={details.prompt} />
          </TallBox>
          {details.check && (
            <p className="small faint">
              Check <code>{inOneLine(details.check, "code")}</code>
            </p>
          )}
          {details.attempts.map((attempt) => (
            <Attempt key={attempt.number} attempt={attempt} isOnly={details.attempts.length === 1} />
          ))}
        </>
      )}
    </section>
  );
}

function Attempt({ attempt, isOnly }: { readonly attempt: CaseAttempt; readonly isOnly: boolean }) {
  const verdict = attempt.fault ? faultWords(attempt.fault) : attempt.passed === null ? "no check" : attempt.passed ? "the check passed" : "the check did not pass";
  const used = [
    [attempt.tokens["input"], "in"],
    [attempt.tokens["cache_read"], "cached"],
    [attempt.tokens["output"], "out"],
  ] as const;
  const facts = [
    attempt.outcome.replaceAll("_", " "),
    attempt.checkExit === null ? "" : `exit ${attempt.checkExit}`,
    cost(attempt.costUsd),
    seconds(attempt.runS),
    ...used.flatMap(([amount, word]) => (amount ? [`${count(amount)} ${word}`] : [])),
    attempt.startedMs ? `began ${shortTime(attempt.startedMs)}` : "",
    attempt.host,
  ];
  return (
    <div className="fleet-attempt">
      <h3>
        {isOnly ? "Result" : `Attempt ${attempt.number}`}: {verdict}
      </h3>
      <p className="small faint">{inOneLine(facts.filter(Boolean).join(" · "))}</p>
      {(attempt.detail || attempt.checkOutput) && (
        <TallBox label="Output" className="fleet-text fixed">
          <Revealed text={[attempt.detail, attempt.checkOutput].filter(Boolean).join("\n")} />
        </TallBox>
      )}
    </div>
  );
}
