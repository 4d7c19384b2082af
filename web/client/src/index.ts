export { HarnessClient } from "./client.js";
export type { Attachment, HarnessCommand, PermissionMode, RunConfig } from "./commands.js";
export { applyOperations, ObjectStreamError, type DeltaOperation, type JSONValue } from "./object_stream.js";
export * from "./state.js";
export {
  ThreadMessageConverter,
  toThreadMessages,
  type ThreadApproval,
  type ThreadMessage,
  type ThreadPart,
  type ThreadStatus,
  type ThreadToolCall,
} from "./thread_messages.js";
export {
  CommandQueueFull,
  HarnessWebsocketTransport,
  type ConnectionStatus,
  type HarnessTransport,
  type Socket,
  type TransportOptions,
} from "./transport.js";
