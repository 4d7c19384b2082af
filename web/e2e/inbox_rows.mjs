// Rows as `/ws/inbox` sends them, and a server of them inside the browser, for what no agent does on demand.
const NOW = () => Date.now();
const MINUTE = 60_000;

const HASH = (text) => `hash of ${text}`;

export function row(id, over = {}) {
  const project = over.project ?? "shop";
  return {
    id,
    title: id,
    agent: "Claude Code",
    agentName: "claude",
    model: "",
    cwd: `/home/me/code/${project}`,
    branch: "main",
    worktree: "",
    tags: [],
    state: "running",
    stateSinceMs: NOW() - MINUTE,
    isLive: true,
    failure: null,
    lastOperation: null,
    asks: [],
    children: [],
    context: { used: 82_000, limit: 200_000 },
    changes: null,
    costUsd: 0.31,
    isCostComplete: true,
    tokens: null,
    queued: 0,
    startedMs: NOW() - 4 * MINUTE,
    updatedMs: NOW(),
    isUnseen: false,
    can: { submit: true, steer: true, answer: true, cancel: true },
    ...over,
    project: { root: `/home/me/code/${project}`, name: project },
  };
}

export function ask(id, over = {}) {
  return {
    id,
    kind: "permission",
    runId: "run",
    callId: "call",
    argumentsHash: HASH(id),
    askedMs: NOW() - MINUTE,
    runName: "",
    toolName: "Bash",
    category: "command",
    operations: [{ kind: "command", command: over.subject ?? "" }],
    title: "run a command",
    subject: "",
    cwd: "",
    more: [],
    why: "",
    question: "",
    options: null,
    payload: null,
    resumeSchema: null,
    preview: null,
    marks: [],
    reason: "",
    isCut: false,
    further: [],
    noAlwaysWhy: "",
    alike: "",
    ...over,
  };
}

const once = { id: "once", kind: "allow-once", label: "Allow once", grants: [] };
const always = (id, rule, reach) => ({ id, kind: "allow-always", label: `Always allow ${rule}`, grants: [], reach });
const TEST_OPTIONS = [once, always("session", "pnpm test **", "conversation"), always("project", "pnpm test **", "project")];

const needsApproval = (id, wait_ms, one, over) =>
  row(id, { state: "needs-approval", stateSinceMs: NOW() - wait_ms, ...over, asks: [{ ...one, askedMs: NOW() - wait_ms }] });

const DIFF = `--- a/app/tax/rates.py\n+++ b/app/tax/rates.py\n@@ -1,4 +1,5 @@\n-"""VAT rates by country."""\n-RATES = {\n-    "AT": 0.20,\n-    "DE": 0.19,\n+"""VAT rates by country."""\n+RATES = load_table("tax_2026.csv")\n+\n+def rate(country, on=None):\n+    return RATES.at(country, on or today())\n`;

export const COMMAND = () =>
  needsApproval(
    "s-command",
    6 * MINUTE,
    ask("r-command", {
      subject: "pnpm test --filter cart -- --run --reporter=dot",
      why: "One test fails: the count seems to be ignored. I run only the cart package to be sure.",
      options: TEST_OPTIONS,
      alike: "pnpm test in shop",
    }),
    { title: "Fix the failing checkout test", branch: "fix/checkout" },
  );

export const OVERWRITE = () =>
  needsApproval(
    "s-overwrite",
    2 * MINUTE,
    ask("r-overwrite", {
      title: "overwrite app/tax/rates.py",
      subject: "app/tax/rates.py",
      category: "edit",
      toolName: "Write",
      operations: [{ kind: "write", path: "app/tax/rates.py", change: "update" }],
      options: [once, always("edits", "edits in app/tax/", "conversation")],
      preview: [{ path: "app/tax/rates.py", change: "update", added: 5, removed: 4, diff: DIFF, hiddenLines: 0 }],
    }),
    {
      title: "Move invoices to the new tax table",
      project: "billing-api",
      agent: "Codex",
      agentName: "codex",
      costUsd: 1.12,
      context: { used: 126_000, limit: 200_000 },
    },
  );

export const QUESTION = () =>
  row("s-question", {
    title: "Rewrite the quickstart",
    project: "docs-site",
    agent: "Gemini",
    agentName: "gemini",
    state: "asks",
    stateSinceMs: NOW() - 48_000,
    costUsd: 0.07,
    context: { used: 24_000, limit: 200_000 },
    asks: [
      ask("r-question", {
        kind: "question",
        title: "answer a question",
        operations: [],
        subject: "Which package manager should the examples use?",
        question: "Which package manager should the examples use?",
        options: ["npm", "pnpm", "All three, in tabs"],
        askedMs: NOW() - 48_000,
      }),
    ],
  });

export const ALIKE = () =>
  needsApproval("s-alike", 20_000, ask("r-alike", { subject: "pnpm test --filter basket", options: TEST_OPTIONS, alike: "pnpm test in shop" }), {
    title: "Speed up the basket page",
    branch: "perf/basket",
    agent: "OpenCode",
    agentName: "opencode",
    costUsd: null,
    context: { used: 44_000, limit: 200_000 },
  });

export const MARKED = () =>
  needsApproval(
    "s-marked",
    30_000,
    ask("r-marked", {
      subject: "echo safe \u202e; rm -rf ~ #\u202c ok",
      options: [once],
      noAlwaysWhy: "it has characters that cannot be seen or look like others",
      marks: [
        { start: 10, end: 11, kind: "bidi", label: "U+202E right-to-left" },
        { start: 23, end: 24, kind: "bidi", label: "U+202C" },
      ],
    }),
    { title: "Clean the build folder" },
  );

export const PLAN = () =>
  row("s-plan", {
    title: "Integers for money",
    project: "billing-api",
    agent: "Harness agent",
    agentName: "native",
    state: "asks",
    stateSinceMs: NOW() - MINUTE,
    asks: [
      ask("r-plan", {
        kind: "plan",
        title: "approve a plan",
        operations: [],
        subject: "1. Read the 14 callers of round()\n2. Make Money an integer type\n3. Move stored prices with a migration\n4. Run the whole test suite",
        payload: {
          title: "integers for money",
          plan: "1. Read the 14 callers of round()\n2. Make Money an integer type\n3. Move stored prices with a migration\n4. Run the whole test suite",
        },
      }),
    ],
  });

export const FORM = () =>
  row("s-form", {
    title: "Two questions about the quickstart",
    project: "docs-site",
    agent: "Gemini",
    agentName: "gemini",
    state: "asks",
    stateSinceMs: NOW() - 40_000,
    asks: [
      ask("r-form", {
        kind: "question",
        title: "answer a question",
        operations: [],
        question: "Two things before I start",
        resumeSchema: {
          type: "object",
          required: ["manager"],
          properties: {
            manager: { enum: ["pnpm", "npm"], title: "Which package manager should the examples use?" },
            systems: { type: "array", items: { enum: ["Linux", "macOS", "Windows"] }, title: "Which systems shall it cover?" },
          },
        },
      }),
    ],
  });

export const TOOL = () =>
  needsApproval(
    "s-tool",
    15_000,
    ask("r-tool", {
      title: "use write_secret of the MCP server vault",
      subject: JSON.stringify({ path: "staging/tls/checkout", secret: "x".repeat(1704), ttl: "2160h" }),
      operations: [],
      options: [once, always("tool", "vault · write_secret", "conversation")],
    }),
    { title: "Rotate the staging certificates", project: "infra", agent: "OpenCode", agentName: "opencode" },
  );

const op = (kind, text) => ({ kind, text });
const child = (name, text, tokens, ms) => ({ runId: name, name, state: "running", startedMs: NOW() - ms, tokens, lastOperation: op("read", text) });

export const RUNNING = () => [
  row("s-gift", {
    title: "Add gift cards to the basket",
    branch: "gift-cards",
    costUsd: 0.84,
    changes: { files: 6, added: 212, removed: 18 },
    lastOperation: op("write", "Edit src/cart/gift.ts"),
    children: [child("reviewer", "Read src/cart/total.ts:1–90", 12_000, 38_000), child("test-writer", "Run pnpm test --filter gift", 31_000, 61_000)],
  }),
  row("s-query", {
    title: "Find the slow invoice query",
    project: "billing-api",
    agent: "Harness agent",
    agentName: "native",
    costUsd: 0.12,
    startedMs: NOW() - 51_000,
    context: { used: 36_000, limit: 200_000 },
    lastOperation: op("command", 'Run psql -c "EXPLAIN ANALYZE SELECT … FROM invoices WHERE due < now()"'),
  }),
  row("s-links", {
    title: "Check every link",
    project: "docs-site",
    agent: "OpenCode",
    agentName: "opencode",
    costUsd: 0.4,
    isCostComplete: false,
    queued: 2,
    startedMs: NOW() - 11 * MINUTE,
    context: { used: 154_000, limit: 200_000 },
    lastOperation: op("fetch", "Fetch https://docs.example.org/guides/webhooks"),
  }),
  row("s-images", {
    title: "Upgrade the base images",
    project: "infra",
    branch: "base-images",
    agent: "Codex",
    agentName: "codex",
    state: "background",
    costUsd: 0.26,
    changes: { files: 3, added: 9, removed: 9 },
    startedMs: NOW() - 6 * MINUTE,
    lastOperation: op("command", "Run docker build -t base:2026-11 ."),
  }),
];

const ended = (id, over) => row(id, { isLive: false, context: null, can: { submit: true, steer: false, answer: false, cancel: false }, ...over });

export const EARLIER = () => [
  ended("s-prices", {
    title: "Round prices the way the bank does",
    state: "succeeded",
    isUnseen: true,
    costUsd: 0.52,
    changes: { files: 5, added: 64, removed: 22 },
    updatedMs: NOW() - 60 * MINUTE,
    tags: ["release"],
  }),
  ended("s-flaky", {
    title: "Make the basket tests less flaky",
    agent: "Gemini",
    agentName: "gemini",
    state: "failed",
    failure: { code: "timed_out", text: "timed out after 30 min" },
    isUnseen: true,
    costUsd: 1.31,
    changes: { files: 1, added: 12, removed: 3 },
    updatedMs: NOW() - 2 * 60 * MINUTE,
    tags: ["flaky"],
  }),
  ended("s-dates", {
    title: "Try the new date library",
    agent: "Codex",
    agentName: "codex",
    state: "interrupted",
    costUsd: 0.27,
    updatedMs: NOW() - 3 * 60 * MINUTE,
  }),
  ended("s-certs", {
    title: "Rotate the staging certificates",
    project: "infra",
    agent: "OpenCode",
    agentName: "opencode",
    state: "lost",
    failure: { code: "", text: "the machine went to sleep" },
    isUnseen: true,
    costUsd: 0.3,
    isCostComplete: false,
    updatedMs: NOW() - 4 * 60 * MINUTE,
  }),
  ended("s-firewall", {
    title: "Explain the firewall rules",
    project: "infra",
    agent: "Harness agent",
    agentName: "native",
    state: "idle",
    costUsd: 0.41,
    updatedMs: NOW() - 5 * 60 * MINUTE,
  }),
];

const TODAY = {
  costUsd: 12.84,
  isCostComplete: false,
  limitUsd: 40,
  byAgent: [
    { agent: "Claude Code", agentName: "claude", costUsd: 6.2, isCostComplete: true },
    { agent: "Codex", agentName: "codex", costUsd: 3.48, isCostComplete: true },
    { agent: "Gemini", agentName: "gemini", costUsd: 1.61, isCostComplete: true },
    { agent: "Harness agent", agentName: "native", costUsd: 0.85, isCostComplete: true },
    { agent: "OpenCode", agentName: "opencode", costUsd: 0.7, isCostComplete: false },
  ],
};

function counts(rows) {
  const are = (...states) => rows.filter(({ state }) => states.includes(state)).length;
  return {
    needsYou: are("needs-approval", "asks"),
    running: are("running", "background"),
    failed: are("failed", "lost"),
    toReview: rows.filter(({ changes }) => changes).length,
  };
}

/** Answers `/ws/inbox` of one page. `sent` has what the page sent; `change` and `remove` what happens to rows. */
export async function fakeInbox(page, first) {
  const rows = new Map(first.map((one) => [one.id, one]));
  const fake = { sent: [], connections: 0, isRefused: false };
  const sockets = new Set();
  const say = (message) => sockets.forEach((socket) => socket.send(JSON.stringify(message)));
  const update = (changed, removed = []) => say({ type: "rows", changed, removed, counts: counts([...rows.values()]) });
  await page.addInitScript(() => delete globalThis.SharedWorker); // whose socket is not this page's
  await page.routeWebSocket(/\/ws\/inbox/, (socket) => {
    fake.connections++;
    if (fake.isRefused) return void socket.close({ code: 1012, reason: "" });
    sockets.add(socket);
    socket.onClose(() => sockets.delete(socket));
    socket.onMessage((text) => {
      const message = JSON.parse(text);
      fake.sent.push(message);
      fake.onMessage?.(message);
    });
    const all = [...rows.values()];
    socket.send(JSON.stringify({ type: "inbox", rows: all, total: all.length, counts: counts(all), today: TODAY }));
  });
  return Object.assign(fake, {
    say,
    change: (...changed) => {
      for (const one of changed) rows.set(one.id, one);
      update(changed);
    },
    remove: (...ids) => {
      for (const id of ids) rows.delete(id);
      update([], ids);
    },
    drop: async () => {
      for (const socket of [...sockets]) await socket.close({ code: 1012, reason: "" });
      sockets.clear();
    },
    /** The answer was taken: the question is gone and the run works. */
    taken: (id, over = {}) => {
      const next = { ...rows.get(id), asks: [], state: "running", ...over };
      rows.set(id, next);
      update([next]);
    },
    rowOf: (id) => rows.get(id),
  });
}
