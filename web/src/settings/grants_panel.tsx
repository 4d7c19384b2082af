import { useCallback, useEffect, useState } from "react";
import { api, type Grant } from "../api.js";
import { sessionAddress } from "../route.js";
import { Revealed } from "../text/revealed.js";
import { inOneLine } from "../text/unseen.js";

/** What is allowed without asking, and until when. */
export function GrantsPanel() {
  const [grants, setGrants] = useState<readonly Grant[] | null>(null);
  const [problem, setProblem] = useState("");
  const look = useCallback(() => {
    api.grants().then(
      ({ grants: found }) => (setGrants(found), setProblem("")),
      (error: Error) => setProblem(error.message),
    );
  }, []);
  useEffect(look, [look]);
  const revoke = ({ session, id }: Grant) => {
    api.revoke(session, id).then(look, (error: Error) => setProblem(error.message));
  };
  return (
    <section className="setting-panel" aria-labelledby="settings-grants">
      <h2 id="settings-grants">
        Allowed without asking {grants && grants.length > 0 && <span className="faint small">{grants.length === 1 ? "1 rule" : `${grants.length} rules`}</span>}
      </h2>
      {grants?.length === 0 && <p className="small faint">Nothing. “Always allow” on a question adds a rule; it ends with the conversation’s process.</p>}
      {!!grants?.length && <GrantTable grants={grants} onRevoke={revoke} />}
      {problem && (
        <p className="bad small" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}

function GrantTable({ grants, onRevoke }: { readonly grants: readonly Grant[]; readonly onRevoke: (grant: Grant) => void }) {
  return (
    <table className="data">
      <thead>
        <tr>
          <th scope="col">Rule</th>
          <th scope="col">Reach</th>
          <th scope="col">Agent</th>
          <th scope="col">
            <span className="unseen">Revoke</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {grants.map((grant) => (
          <tr key={`${grant.session} ${grant.id}`}>
            <td>
              <code>
                <Revealed text={grant.label} />
              </code>
            </td>
            <td>
              this conversation
              <br />
              <a className="small" href={sessionAddress(grant.session)}>
                {inOneLine(grant.title) || "Untitled"}
              </a>
            </td>
            <td className="soft">{inOneLine(grant.agent || grant.agentName)}</td>
            <td className="setting-end">
              <button type="button" className="button small stop" aria-label={`Revoke ${grant.label}`} onClick={() => onRevoke(grant)}>
                Revoke
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
