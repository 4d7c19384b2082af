import { useRef } from "react";
import { Icon } from "../shell/icon.js";
import type { ChosenFiles } from "./chosen_files.js";
import { megabytes, sizeOf } from "./reading.js";

export function ChosenList({ chosen }: { chosen: ChosenFiles }) {
  if (!chosen.files.length && !chosen.problem) return null;
  return (
    <div className="chosen">
      {chosen.files.length > 0 && (
        <ul aria-label="Attached files">
          {chosen.files.map((file, index) => (
            <li key={index}>
              <Icon name="read" />
              <span className="clipped">{file.name || file.mediaType}</span>
              <span className="faint">{megabytes(sizeOf(file))}</span>
              <button type="button" className="quiet small" onClick={() => chosen.remove(file)} aria-label={`Remove ${file.name}`} title="Remove">
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {chosen.problem && (
        <p className="problem" role="alert">
          {chosen.problem}
        </p>
      )}
    </div>
  );
}

export function AttachButton({ chosen }: { chosen: ChosenFiles }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" className="quiet round" onClick={() => field.current?.click()} aria-label="Attach files" title="Attach files (or paste, or drop them)">
        <Icon name="attach" />
      </button>
      <input
        ref={field}
        type="file"
        multiple
        hidden
        aria-label="Files"
        onChange={(event) => {
          void chosen.add([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}
