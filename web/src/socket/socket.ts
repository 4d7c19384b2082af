/** The socket that all parts of this page share, and where it can be all tabs; it connects when it is first asked for. */

import { checkLogin, login } from "../login.js";
import { onNextFrame } from "./next_frame.js";
import { PageSocket } from "./page_socket.js";
import { connectShared } from "./shared_socket.js";

let shared: PageSocket | null = null;

function address(): string {
  const url = new URL("ws/inbox", document.baseURI);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.search = url.hash = "";
  return url.href;
}

export function pageSocket(): PageSocket {
  if (shared) return shared;
  // A socket that is refused does not say why.
  const socket = new PageSocket({ url: address(), protocols: login.protocols, connect: connectShared, schedule: onNextFrame, onRefused: () => void checkLogin() });
  login.subscribe(() => login.status() === "in" && socket.reconnectNow());
  // The connection is another tab's, which was let in: so is this one, and nothing else would make it ask.
  socket.subscribe(() => socket.status === "open" && login.status() === "out" && void checkLogin());
  window.addEventListener("online", socket.reconnectNow);
  document.addEventListener("visibilitychange", socket.reconnectNow);
  return (shared = socket);
}
