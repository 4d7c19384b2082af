import { memo } from "react";
import { coloured, type Piece } from "../text/colouring.js";
import { Revealed } from "../text/revealed.js";
import { isPlain } from "../text/unseen.js";
import { MARKED_MAX, wordMarks, type MarkedRange } from "./word_marks.js";

interface DiffTextProps {
  readonly text: string;
  readonly language: string;
  /** The line beside it, and on which side; its words are marked where they differ. */
  readonly partner: string | null;
  readonly isOld: boolean;
}

/** One line of code in colour, with the words that changed marked. Only what is on the screen is computed. */
export const DiffText = memo(function DiffText({ text, language, partner, isOld }: DiffTextProps) {
  if (text.length > MARKED_MAX) return <Revealed text={text} />;
  const marks = partner === null ? [] : isOld ? wordMarks(text, partner).old : wordMarks(partner, text).new;
  const areRevealed = !isPlain(text);
  return cut(coloured(text, language), marks).map(({ kind, text: piece, isMarked }, index) => {
    const words = areRevealed ? <Revealed key={index} text={piece} /> : piece;
    const shown = kind ? (
      <span key={index} className={`code-${kind}`}>
        {words}
      </span>
    ) : (
      words
    );
    return isMarked ? <mark key={index}>{shown}</mark> : shown;
  });
});

interface CutPiece extends Piece {
  readonly isMarked: boolean;
}

/** The pieces, cut where a mark begins or ends. */
function cut(pieces: readonly Piece[], marks: readonly MarkedRange[]): readonly CutPiece[] {
  const found: CutPiece[] = [];
  let at = 0;
  for (const { kind, text } of pieces) {
    const end = at + text.length;
    const edges = marks.flatMap((mark) => [mark.start, mark.end]).filter((edge) => edge > at && edge < end);
    for (const edge of [...edges, end]) {
      if (edge > at) found.push({ kind, text: text.slice(text.length - (end - at), text.length - (end - edge)), isMarked: isIn(at, marks) });
      at = edge;
    }
  }
  return found;
}

const isIn = (at: number, marks: readonly MarkedRange[]) => marks.some(({ start, end }) => start <= at && at < end);

/** The language of a file, as colouring calls it. */
export function languageOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : name;
}
