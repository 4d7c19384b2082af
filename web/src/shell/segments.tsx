/** A few choices in a row, one of which holds. */

interface SegmentsProps<Value extends string> {
  readonly label: string;
  readonly options: readonly (readonly [Value, string])[];
  readonly value: Value;
  readonly onChange: (value: Value) => void;
}

export function Segments<Value extends string>({ label, options, value, onChange }: SegmentsProps<Value>) {
  return (
    <span className="segments" role="group" aria-label={label}>
      {options.map(([id, name]) => (
        <button key={id} type="button" aria-pressed={value === id} onClick={() => onChange(id)}>
          {name}
        </button>
      ))}
    </span>
  );
}
