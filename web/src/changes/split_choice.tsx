export function SplitChoice({ isSplit, onChoose }: { isSplit: boolean; onChoose: (isSplit: boolean) => void }) {
  return (
    <div className="changes-segments" role="group" aria-label="How to show">
      <button type="button" aria-pressed={!isSplit} onClick={() => onChoose(false)}>
        Unified
      </button>
      <button type="button" aria-pressed={isSplit} onClick={() => onChoose(true)}>
        Side by side
      </button>
    </div>
  );
}
