import { useRef, useSyncExternalStore, type ReactNode } from "react";
import { login } from "../login.js";

/** The page for a browser that is logged in. A browser that is logged out later still shows its content and drafts. */
export function LoginPage({ children }: { readonly children: ReactNode }) {
  const status = useSyncExternalStore(login.subscribe, login.status);
  const reason = useSyncExternalStore(login.subscribe, login.reason);
  const wasIn = useRef(false);
  if (status === "in") wasIn.current = true;
  return (
    <>
      {wasIn.current && children}
      {status === "out" && <LoggedOut reason={reason} isOver={wasIn.current} />}
    </>
  );
}

function LoggedOut({ reason, isOver }: { readonly reason: string; readonly isOver: boolean }) {
  return (
    <div className="logged-out" data-over={isOver || undefined} role="alert">
      <div className="placeholder">
        <h2>This browser is not logged in</h2>
        {reason && <p className="faint">{sentence(reason)}</p>}
        <p>
          Open the link that <code>harness serve</code> printed; it works once. <code>harness serve --link</code> prints another.
        </p>
        {isOver && <p className="faint">Open it in another tab of this browser; this tab then continues where it is.</p>}
      </div>
    </div>
  );
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
