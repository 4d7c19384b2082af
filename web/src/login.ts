/**
 * The login of this browser.
 *
 * There are no cookies: they go to every server on the same host. What is sent (the credential) is stored in this
 * origin's storage, for all its tabs, and ends with the server's process. What outlives that is a key which the browser
 * uses and no script can read: with it the page proves its identity to a restarted server. The proof holds for this
 * origin alone, so that another program that has taken the port meanwhile can use it nowhere.
 */

const CREDENTIAL = "harness.credential";
const SUBPROTOCOL = "harness";
const DATABASE = "harness";
const KEYS = "keys";
const KEY = "login";

export type LoginStatus = "in" | "out";

interface Key {
  readonly id: string;
  readonly key: CryptoKey;
}

let credential = stored();
let status: LoginStatus = credential ? "in" : "out";
let reason = "";
let renewal: Promise<boolean> | null = null;
const listeners = new Set<() => void>();

function stored(): string {
  try {
    return localStorage.getItem(CREDENTIAL) ?? "";
  } catch {
    return "";
  }
}

function keep(value: string): void {
  credential = value;
  try {
    if (value) localStorage.setItem(CREDENTIAL, value);
    else localStorage.removeItem(CREDENTIAL);
  } catch {
    // No storage: it lasts as long as the page.
  }
}

function become(now: LoginStatus, why = ""): void {
  [status, reason] = [now, why];
  for (const listener of listeners) listener();
}

// Another tab was let in, or has a newer credential.
window.addEventListener("storage", ({ key, newValue }) => {
  if (key !== CREDENTIAL || !newValue) return;
  credential = newValue;
  become("in");
});

export const login = {
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  status: (): LoginStatus => status,
  /** Why the browser is not logged in, if the server sent a reason. */
  reason: (): string => reason,
  /** For a socket, which can have no header of its own. */
  protocols: (): readonly string[] => (credential ? [SUBPROTOCOL, `${SUBPROTOCOL}.credential.${credential}`] : []),
};

/** As `fetch`, let in. A credential that has ended is renewed first, where the browser can. */
export async function authorizedFetch(path: string, init: RequestInit = {}): Promise<Response> {
  const sent = credential;
  let response = await send(path, init, sent);
  if (response.status === 401 && (credential !== sent || isLetInElsewhere(sent))) response = await send(path, init, credential);
  return response.status === 401 && (await renewed()) ? send(path, init, credential) : response;
}

/** A file of the server's for a picture or a download, which cannot send the credential itself. To be revoked when it is no longer shown. */
export async function objectUrl(path: string): Promise<string> {
  const response = await authorizedFetch(path);
  if (!response.ok) throw new Error(`The server answered with status ${response.status}.`);
  return URL.createObjectURL(await response.blob());
}

/** A socket was refused, which does not say why: see whether it is for the credential. */
export async function checkLogin(): Promise<void> {
  await authorizedFetch("api/server").catch(() => undefined);
}

function send(path: string, init: RequestInit, bearer: string): Promise<Response> {
  const headers = new Headers(init.headers);
  if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
  return fetch(path, { ...init, headers, credentials: "omit", cache: "no-store" });
}

/** Before anything is shown: the code of a link is changed for a credential. */
export async function enter(): Promise<void> {
  const url = new URL(window.location.href);
  const code = url.searchParams.get("token") ?? "";
  if (!url.pathname.endsWith("/login")) {
    if (!credential) await renewed();
    return;
  }
  // The code is not to be seen in the address, nor in what the browser remembers of it.
  history.replaceState(null, "", `${url.pathname.slice(0, -"login".length)}${url.hash}`);
  const answer = await post({ code });
  if (answer?.credential) {
    keep(answer.credential);
    become("in");
    if (answer.key) await keepKey(answer.key.id, answer.key.secret);
  } else if (answer !== null && !(await isLetIn())) {
    become("out", answer.error?.message ?? "");
  }
}

async function isLetIn(): Promise<boolean> {
  return (await authorizedFetch("api/server")).ok;
}

interface LoginAnswer {
  readonly credential?: string;
  readonly key?: { readonly id: string; readonly secret: string };
  readonly error?: { readonly message?: string };
}

/** null: the server cannot be reached. */
async function post(body: Readonly<Record<string, string>>): Promise<LoginAnswer | null> {
  try {
    const response = await send("api/login", { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }, "");
    return (await response.json()) as LoginAnswer;
  } catch {
    return null;
  }
}

/** Another tab has stored a newer credential than the one that was sent; the event that says so may come later than this. */
function isLetInElsewhere(sent: string): boolean {
  const newest = stored();
  if (!newest || newest === sent) return false;
  credential = newest;
  become("in");
  return true;
}

/** One attempt for all that ask at once. */
function renewed(): Promise<boolean> {
  renewal ??= renew().finally(() => (renewal = null));
  return renewal;
}

async function renew(): Promise<boolean> {
  const before = credential;
  const known = await storedKey();
  const answer = known && (await prove(known));
  if (answer?.credential) {
    keep(answer.credential);
    become("in");
    return true;
  }
  if (known && answer === null) return false; // the server was not reached
  // What was refused is the key of before: a tab that was let in meanwhile stays so, and this one with it.
  if (credential !== before || isLetInElsewhere(before)) return true;
  keep("");
  become("out", answer ? (answer.error?.message ?? "") : "");
  return false;
}

async function prove({ id, key }: Key): Promise<LoginAnswer | null> {
  try {
    const response = await send("api/login", {}, "");
    const { nonce } = (await response.json()) as { nonce: string };
    const signed = new Uint8Array(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(`${window.location.origin}\n${nonce}`)));
    const proof = [...signed].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    return await post({ keyId: id, nonce, proof });
  } catch {
    return null;
  }
}

/** Where there is no such place (an address without TLS that is not this machine), a restart of the server needs a new link. */
async function keepKey(id: string, secret: string): Promise<void> {
  try {
    const bytes = Uint8Array.from(secret.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
    const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    await inKeys("readwrite", (keys) => keys.put({ id, key } satisfies Key, KEY));
  } catch {
    // It is let in as long as this server runs.
  }
}

async function storedKey(): Promise<Key | null> {
  try {
    return ((await inKeys("readonly", (keys) => keys.get(KEY))) as Key | undefined) ?? null;
  } catch {
    return null;
  }
}

function inKeys(mode: IDBTransactionMode, use: (keys: IDBObjectStore) => IDBRequest): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(KEYS);
    opening.onerror = () => reject(opening.error ?? new Error("no database"));
    opening.onsuccess = () => {
      const database = opening.result;
      const asked = use(database.transaction(KEYS, mode).objectStore(KEYS));
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = () => reject(asked.error ?? new Error("no key"));
      asked.transaction?.addEventListener("complete", () => database.close());
    };
  });
}
