import type { HarnessToolCall } from "../../client/src/index.js";
import { useOpenState } from "../conversation/open_state.js";
import { ToolCard } from "./tool_card.js";

/** Reads and searches in a row: the first, and how many more. */
export function LooksCard({ id, calls }: { id: string; calls: readonly HarnessToolCall[] }) {
  const [isOpen, setOpen] = useOpenState(`looks ${id}`, false);
  const [first, ...others] = calls;
  if (!first) return null;
  return (
    <div className="looks">
      <div className="looks-first">
        <ToolCard call={first} />
        {others.length > 0 && (
          <button type="button" className="quiet small looks-more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? "show less" : `and ${others.length} more`}
          </button>
        )}
      </div>
      {isOpen && others.map((call) => <ToolCard key={call.id} call={call} />)}
    </div>
  );
}
