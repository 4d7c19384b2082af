import { useEffect, useState } from "react";
import type { HarnessFilePart, HarnessToolCall } from "../../client/src/index.js";
import { api } from "../api.js";
import { FilePart } from "../conversation/file_part.js";
import { useConversation } from "../conversation/context.js";

/** Pictures and files that a tool gave besides its words: their names at once, what is in them when it has come. */
export function ToolFiles({ call, files }: { call: HarnessToolCall; files: readonly HarnessFilePart[] }) {
  const { sessionId } = useConversation();
  const [whole, setWhole] = useState<readonly HarnessFilePart[]>(files);
  useEffect(() => {
    let isGone = false;
    api.call(sessionId, call.id).then(
      ({ files: fetched }) => !isGone && setWhole(fetched),
      () => undefined, // the names stay
    );
    return () => {
      isGone = true;
    };
  }, [sessionId, call.id]);
  return whole.map((file, index) => <FilePart key={index} file={file} />);
}
