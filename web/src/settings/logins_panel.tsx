import { useState } from "react";
import { authorizedFetch } from "../login.js";

/** Which browsers may see all this. */
export function LoginsPanel() {
  const [problem, setProblem] = useState("");
  const logOut = (path: string) => {
    authorizedFetch(path, { method: "DELETE" }).then(
      (response) => (response.ok ? window.location.reload() : setProblem(`The server answered with status ${response.status}.`)),
      () => setProblem("The server cannot be reached."),
    );
  };
  return (
    <section className="setting-panel" aria-labelledby="settings-logins">
      <h2 id="settings-logins">Browsers</h2>
      <p className="small soft">
        A browser is let in by a link that <code>harness serve --link</code> prints.
      </p>
      <p className="setting-row">
        <button type="button" className="button small" onClick={() => logOut("api/login")}>
          Log out this browser
        </button>
        <button type="button" className="button small stop" onClick={() => logOut("api/logins")}>
          Log out all browsers
        </button>
        {problem && (
          <span className="bad small" role="alert">
            {problem}
          </span>
        )}
      </p>
    </section>
  );
}
