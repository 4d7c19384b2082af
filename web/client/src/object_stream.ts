/**
 * The object stream: a JSON value that is changed by `set` and `append-text` operations.
 *
 * A batch is all or nothing: an operation that cannot be applied throws, and the state stays what it was.
 * States are immutable: whatever a batch did not touch keeps its identity, so that a renderer can compare by `===`.
 */

export type JSONValue = null | boolean | number | string | readonly JSONValue[] | { readonly [key: string]: JSONValue };

export type DeltaOperation =
  | { readonly type: "set"; readonly path: readonly string[]; readonly value: JSONValue }
  | { readonly type: "append-text"; readonly path: readonly string[]; readonly value: string };

/** An operation that does not fit the state: the sender and the receiver have different states. */
export class ObjectStreamError extends Error {
  override name = "ObjectStreamError";
}

type Container = unknown[] | Record<string, unknown>;
/** Containers made by the running batch: nothing else refers to them, so they may be changed in place. */
type Fresh = Set<object>;

const UNSAFE_SEGMENTS: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

/** The state after `operations`; throws `ObjectStreamError` and changes nothing when one of them does not fit. */
export function applyOperations<State>(state: State, operations: readonly DeltaOperation[]): State {
  const fresh: Fresh = new Set();
  let current: unknown = state;
  for (const operation of operations) current = applyOne(current, operation, fresh);
  return current as State;
}

function applyOne(state: unknown, operation: DeltaOperation, fresh: Fresh): unknown {
  const { type, path } = operation;
  if (type !== "set" && type !== "append-text") throw new ObjectStreamError(`Invalid operation type: ${String(type)}`);
  const last = path.length - 1;
  if (last < 0) return changed(state, operation);
  const root = writable(state, path, 0, fresh);
  let container = root;
  for (let depth = 0; depth < last; depth++) {
    const key = keyIn(container, path, depth);
    const child = writable(ownValue(container, key), path, depth + 1, fresh);
    put(container, key, child);
    container = child;
  }
  const key = keyIn(container, path, last);
  put(container, key, changed(ownValue(container, key), operation));
  return root;
}

function changed(current: unknown, operation: DeltaOperation): unknown {
  if (operation.type === "set") return operation.value;
  if (typeof current !== "string") throw new ObjectStreamError(`Expected string at path [${operation.path.join(", ")}]`);
  return current + operation.value;
}

/** A container that this batch may change: `value` itself, its copy, or a new object where there is nothing yet. */
function writable(value: unknown, path: readonly string[], depth: number, fresh: Fresh): Container {
  const existing = value ?? {};
  if (typeof existing !== "object") throw new ObjectStreamError(`Invalid path: [${path.slice(depth).join(", ")}]`);
  if (fresh.has(existing)) return existing as Container;
  const copy = Array.isArray(existing) ? existing.slice() : { ...existing };
  fresh.add(copy);
  return copy as Container;
}

function keyIn(container: Container, path: readonly string[], depth: number): string | number {
  const segment = path[depth] as string;
  if (UNSAFE_SEGMENTS.has(segment)) throw new ObjectStreamError(`Unsafe path segment: ${segment}`);
  if (!Array.isArray(container)) return segment;
  const index = Number(segment);
  if (!Number.isInteger(index) || String(index) !== String(segment))
    throw new ObjectStreamError(`Expected array index at [${path.slice(depth).join(", ")}]`);
  if (index < 0 || index > container.length) throw new ObjectStreamError("Insert array index out of bounds");
  return index;
}

function ownValue(container: Container, key: string | number): unknown {
  return Object.hasOwn(container, key) ? (container as Record<string | number, unknown>)[key] : undefined;
}

function put(container: Container, key: string | number, value: unknown): void {
  (container as Record<string | number, unknown>)[key] = value;
}
