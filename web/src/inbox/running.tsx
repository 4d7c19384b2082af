import { RunningItem, type RowAction } from "./row_item.js";
import type { InboxRow } from "./row.js";
import { Windowed } from "./windowed.js";

const ROW_HEIGHT = 58;

interface RunningProps {
  readonly rows: readonly InboxRow[];
  readonly cursorAt: string;
  readonly now_ms: number;
  readonly action: { readonly id: string; readonly what: RowAction };
  readonly onActionDone: () => void;
}

/** What works now, with its last line. */
export function Running({ rows, cursorAt, now_ms, action, onActionDone }: RunningProps) {
  if (!rows.length) return null;
  return (
    <section aria-label="Running">
      <h2 className="section">
        Running <span className="count">{rows.length}</span>
      </h2>
      <div className="table">
        <Windowed items={rows} keyOf={(row) => row.id} rowHeight={ROW_HEIGHT} cursor={cursorAt}>
          {(row) => (
            <RunningItem
              key={row.id}
              row={row}
              isAt={cursorAt === row.id}
              now_ms={now_ms}
              action={action.id === row.id ? action.what : ""}
              onActionDone={onActionDone}
            />
          )}
        </Windowed>
      </div>
    </section>
  );
}
