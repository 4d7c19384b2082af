import { useCallback, useEffect, useState } from "react";
import { ago } from "../amounts.js";
import { api, type Login } from "../api.js";
import { inOneLine } from "../text/unseen.js";

/** Which browsers may see all this. */
export function LoginsPanel() {
  const [logins, setLogins] = useState<readonly Login[]>([]);
  const [problem, setProblem] = useState("");
  const fail = (error: Error) => setProblem(error.message);
  const look = useCallback(() => void api.logins().then(({ logins: found }) => setLogins(found), fail), []);
  useEffect(look, [look]);
  const logOut = (login: Login) => {
    api.logOut(login.id).then(() => (login.isCurrent ? window.location.reload() : look()), fail);
  };
  const others = logins.filter(({ isCurrent }) => !isCurrent);
  const logOutOthers = () => {
    Promise.all(others.map(({ id }) => api.logOut(id))).then(look, fail);
  };
  return (
    <section className="setting-panel" aria-labelledby="settings-logins">
      <h2 id="settings-logins">Browsers</h2>
      <table className="data">
        <caption className="unseen">Browsers that are logged in</caption>
        <tbody>
          {logins.map((login) => (
            <tr key={login.id}>
              <th scope="row">{login.isCurrent ? "This browser" : inOneLine(login.browser) || "A browser"}</th>
              <td className="faint setting-end">
                {[login.isCurrent && inOneLine(login.browser), ago(login.usedMs)].filter(Boolean).join(" · ")}
              </td>
              <td className="setting-end setting-button">
                <button type="button" className="button small" onClick={() => logOut(login)} aria-label={`Log out ${login.isCurrent ? "this browser" : login.browser || "a browser"}`}>
                  Log out
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="setting-row setting-after">
        {others.length > 0 && (
          <button type="button" className="button small stop" onClick={logOutOthers}>
            Log out all others
          </button>
        )}
        <span className="small faint">
          <code>harness serve --link</code> lets another browser in.
        </span>
      </p>
      {problem && (
        <p className="bad small" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}
