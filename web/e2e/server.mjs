// The real server: the one that HARNESS_URL names, or one of our own with a home of its own.
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const LINK = /^http:\/\/\S+$/m;
const START_MS = 30_000;

/** `prepare` is called with the server's home before it starts. */
export async function startServer({ folder, model, prepare = () => undefined }) {
  if (process.env.HARNESS_URL) return { link: process.env.HARNESS_URL, restart: null, record: null, command: null, run: null, home: "", stop: async () => undefined };
  const local = join(ROOT, ".venv", "bin", "harness");
  const program = process.env.HARNESS ?? (existsSync(local) ? local : "harness");
  const home = mkdtempSync(join(tmpdir(), "harness-home-"));
  prepare(home);
  let running = await launch(program, home, folder, model, 0);
  const port = new URL(running.link).port;
  return {
    link: running.link,
    restart: async (between) => {
      await running.stop();
      await between();
      running = await launch(program, home, folder, model, port);
    },
    /** What `harness run` does beside the server, in the same home. */
    record: (prompt) => promisify(execFile)(program, ["run", "-a", "native", "-m", model, "-d", folder, "-p", prompt], { env: environment(home) }),
    /** What `harness serve` says to `--link` or `--logout` beside the server. */
    command: async (option) => (await promisify(execFile)(program, ["serve", option], { env: environment(home) })).stdout.trim(),
    /** Any command of Harness beside the server, in the same home. */
    run: (words, cwd) => promisify(execFile)(program, words, { env: environment(home), cwd }),
    home,
    stop: () => running.stop(),
  };
}

function environment(home) {
  return { PATH: process.env.PATH, HOME: home, LANG: "C.UTF-8" };
}

async function launch(program, home, folder, model, port) {
  const child = spawn(program, ["serve", "--port", String(port), "-a", "native", "-m", model, "--cwd", folder], { env: environment(home) });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  let said = "";
  child.stderr.on("data", (data) => (said += data));
  const link = await new Promise((resolve, reject) => {
    let output = "";
    const timer = setTimeout(() => reject(new Error(`the server did not start: ${said}`)), START_MS);
    child.once("exit", () => reject(new Error(`the server ended: ${said}`)));
    child.stdout.on("data", (data) => {
      output += data;
      const found = LINK.exec(output)?.[0];
      if (!found) return;
      clearTimeout(timer);
      resolve(found);
    });
  });
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return { link, stop };
}
