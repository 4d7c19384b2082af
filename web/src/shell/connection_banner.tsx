import type { LiveConversation } from "../conversation/live_state.js";

/** The connection was there and is not now: what is shown may be old. */
export function ConnectionBanner({ live }: { live: LiveConversation }) {
  if (!live.isLoaded || live.connection === "open") return <div className="banner-place" />;
  const waiting = live.waitingCommands;
  return (
    <div className="banner" role="status">
      {live.connection === "closed" ? (
        <span>The server closed the connection. {live.closeReason}</span>
      ) : (
        <>
          <span>
            Connection lost. What you see may be out of date; the page reconnects by itself.
            {waiting > 0 && ` ${waiting === 1 ? "One command is" : `${waiting} commands are`} waiting to be sent.`}
          </span>
          <button type="button" className="button small" onClick={() => live.transport.reconnectNow()}>
            Reconnect now
          </button>
          {waiting > 0 && (
            <button type="button" className="button small" onClick={() => live.transport.discardWaiting()}>
              Discard
            </button>
          )}
        </>
      )}
    </div>
  );
}
