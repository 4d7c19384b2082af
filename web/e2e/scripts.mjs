// What the scripted model says in these tests: one lane per conversation, chosen by a word of its first prompt.
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HOSTILE_TEXTS } from "./hostile_texts.mjs";

const text = (content, pieces = 1) => ({ type: "text", content, pieces });
const reasoning = (content, pieces = 1) => ({ type: "reasoning", content, pieces });
const call = (name, input) => ({ type: "tool_call", name, input });
const usage = { type: "usage", inputTokens: 42_332, outputTokens: 912, cacheReadTokens: 38122 };
const lane = (marker, ...responses) => ({ marker, responses: responses.map((events) => ({ events })) });

const BEFORE = "def send(request):\n    for attempt in range(3):\n        response = transport.send(request)\n        if response.ok:\n            return response\n    raise Failed(response)\n";
const AFTER = BEFORE.replace("range(3)", "range(ATTEMPTS)").replace("    raise", "        sleep(pause_s(attempt))\n    raise");
const FINAL = `Done: the client now waits **0.25 s**, then twice as long each time.

\`\`\`python
def pause_s(attempt: int) -> float:
    # doubles each time, never more than a minute
    return min(60.0, 0.25 * 2 ** attempt) * random.uniform(0.75, 1.25)
\`\`\`

| attempt | pause |
|---|---|
| 1 | 0.25 s |
| 2 | 0.5 s |

1. \`pause_s\` in \`http_client.py\`
2. one test adjusted

See <https://example.com/backoff>.
`;

const CONVERSATION = lane(
  "RETRIES",
  [reasoning("The client shall back off. I look for the **retry loop** first, then decide where the pause belongs.", 8), text("I'll look at how the client retries today.\n", 4), call("todo", { todos: tasks("in_progress", "pending", "pending") }), call("list", {}), call("grep", { pattern: "attempt" })],
  [call("read", { filePath: "http_client.py" })],
  [text("The loop tries three times **without a pause**. I'll make the pause grow.\n", 6), call("edit", { filePath: "http_client.py", oldString: BEFORE, newString: AFTER })],
  [call("bash", { command: "echo '....F'; echo 'FAILED test_gives_up - assert 3 == 4'; exit 1" })],
  [text("One test counts the attempts.\n", 4), call("todo", { todos: tasks("completed", "completed", "in_progress") })],
  [text(FINAL, 30), usage],
);

function tasks(...statuses) {
  const names = [
    ["Find where attempts are counted", "Finding where attempts are counted"],
    ["Make the pause grow", "Making the pause grow"],
    ["Adjust the test", "Adjusting the test"],
  ];
  return names.map(([content, activeForm], index) => ({ content, activeForm, status: statuses[index] }));
}

// A script starts again when a run continues after an answer: each of these asks again and again.
const QUESTION = lane("QUESTION", [
  call("ask_user", { question: "How many attempts shall there be?", options: [{ label: "Three", description: "As it was" }, { label: "Five", description: "Survives a restart of the server" }] }),
]);
const PLAN = lane("PLAN", [call("submit_plan", { title: "Backing off", plan: "1. Grow the pause\n2. Fix the test\n\n- [x] looked\n- [ ] done\n" })]);

/** What `harness run` recorded: a sub-agent, and a long output. */
const RECORD = lane(
  "RECORD",
  [text("A sub-agent shall look.\n", 3), call("agent", { task: "EXPLORE: find the tests that count attempts", name: "explorer" })],
  [call("bash", { command: "seq 1 20000" })],
  [text("Nobody else counts them.", 3), usage],
);

/** Read as another one where it is shown as it comes. */
export const SPOOFED = "echo safe \u202e; rm -rf ~ #\u202c ok\u200b\u2028";
/** Letters that are written from right to left take the blanks and signs between them along. */
const RIGHT_TO_LEFT = "echo \u05d0\u05d1 ; rm 1 -rf 2 \u05d2\u05d3 > out";
export const DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const WORDS = `A term[^1], a [link][there] and a word\u202Eturned.

![dot](data:image/png;base64,${DOT}) ![far](https://example.com/far.png)

- [x] looked
- [ ] done

[INFO]: kept

[^1]: The footnote text matters.

[there]: https://example.com/there
`;

/** A formula, a table, a diagram, and those that try to run or load something. */
const MATHS = `Energy is $E = mc^2$, and it costs $5 or $10.

$$
\\sum_{i=1}^n i = \\frac{n(n+1)}{2}
$$

| left | right |
|:---|---:|
| a | 1 |

\`\`\`mermaid
flowchart LR
  A[Read] --> B{Changed?}
  B -->|yes| C[Test]
\`\`\`

$$\\href{javascript:window.__ran=1}{x} \\includegraphics{https://example.com/far.png}$$

\`\`\`mermaid
%%{init: {"securityLevel": "loose", "themeCSS": "@import url(https://example.com/a.css); * { background: url(https://example.com/b.png) }"}}%%
flowchart LR
  A["<img src=https://example.com/c.png onerror=window.__ran=1><script>window.__ran=1</script>"] --> B@{ img: "https://example.com/d.png", label: "x" }
  click A href "javascript:window.__ran=1"
\`\`\`
`;

const PACED = {
  pause_ms: 12,
  responses: [{ events: [text("Nothing was asked that I know.", 4)] }],
  lanes: [
    CONVERSATION,
    QUESTION,
    PLAN,
    RECORD,
    lane("EXPLORE", [text("I look.", 2), call("list", {})], [text("Only `test_gives_up` does.", 3)]),
    lane("LONG", [text(Array.from({ length: 600 }, (_, index) => `word${index} `).join(""), 600)]),
    lane("DENY", [call("bash", { command: "rm -rf everything" })], [text("Then not.", 2)]),
    lane("HOSTILE", ...hostileResponses()),
    lane("SPOOF", [call("bash", { command: SPOOFED })], [call("bash", { command: `ls${"\n".repeat(60)}echo HIDDEN-PART`, workdir: "elsewhere", timeout: 5 })], [text("Nothing was run.", 2)]),
    lane("HEBREW", [call("bash", { command: RIGHT_TO_LEFT })], [text("Done.", 2)]),
    lane("TALL", [call("bash", { command: Array.from({ length: 60 }, (_, index) => `echo line ${index}`).join("\n") })], [text("Done.", 2)]),
    lane("OVERWRITE", [call("read", { filePath: "notes.txt" })], [call("write", { filePath: "notes.txt", content: "line 1\nanother\n" })], [text("Written.", 2)]),
    lane("ALWAYS", [call("bash", { command: "touch one" })], [call("bash", { command: "touch two" })], [call("bash", { command: "touch other" })], [text("Done.", 2)]),
    lane("TWICE", [call("write", { filePath: "big.py", content: "a = 1\nb = 2\n" }), call("bash", { command: "touch two" })], [text("Done.", 2)]),
    lane("MATHS", [text(MATHS, 3)]),
    lane("WORDS", [call("read", { filePath: "dot.png" })], [text(WORDS, 40)]),
  ],
};

function hostileResponses() {
  const said = HOSTILE_TEXTS.map((one) => `${one}\n\n[link](${one}) ![picture](${one}) <${one}>\n`).join("\n");
  const calls = HOSTILE_TEXTS.map((one) => call(one.slice(0, 60), { path: one, content: one, old_string: "", new_string: one }));
  const files = HOSTILE_TEXTS.slice(0, 12).map((one) => call("write", { filePath: `${one.replaceAll("/", "_").slice(0, 60)}`, content: one }));
  return [[reasoning(HOSTILE_TEXTS.join("\n\n")), text(said), ...calls, ...files], [text(HOSTILE_TEXTS.join("\n\n"))]];
}

export const FLOOD_DELTAS = 20_000;
const FLOOD_WORDS = ["word ", "another ", "`code` ", "**bold** ", "and ", "so on.\n\n", "more ", "text "];
const FLOOD = {
  pause_ms: 1,
  responses: [{ events: [text(Array.from({ length: FLOOD_DELTAS }, (_, index) => FLOOD_WORDS[index % FLOOD_WORDS.length]).join(""), FLOOD_DELTAS)] }],
};

/** A workspace and the scripts as files: the model's names are `scripted/<file>`. */
export function workplace() {
  const folder = mkdtempSync(join(tmpdir(), "harness-e2e-"));
  writeFileSync(join(folder, "http_client.py"), BEFORE);
  writeFileSync(join(folder, "notes.txt"), Array.from({ length: 9 }, (_, index) => `line ${index}\n`).join(""));
  mkdirSync(join(folder, "elsewhere"));
  writeFileSync(join(folder, "dot.png"), Buffer.from(DOT, "base64"));
  const script = (name, content) => {
    const path = join(folder, `${name}.json`);
    writeFileSync(path, JSON.stringify(content));
    return `scripted/${path}`;
  };
  return { folder, paced: script("paced", PACED), flood: script("flood", FLOOD) };
}
