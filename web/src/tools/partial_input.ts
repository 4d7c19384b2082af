/** Arguments that the model is still writing, as far as they are written. */

import type { JSONValue } from "../../client/src/index.js";

/** Null where nothing can be read yet. */
export function partialInput(text: string): JSONValue {
  const closings: string[] = [];
  let isText = false;
  for (let index = 0; index < text.length; index++) {
    const letter = text[index];
    if (isText) {
      if (letter === "\\") index++;
      else if (letter === '"') isText = false;
    } else if (letter === '"') isText = true;
    else if (letter === "{") closings.push("}");
    else if (letter === "[") closings.push("]");
    else if (letter === "}" || letter === "]") closings.pop();
  }
  const rest = closings.reverse().join("");
  for (const candidate of isText ? halfTexts(text) : halfValues(text)) {
    try {
      return JSON.parse(candidate + rest) as JSONValue;
    } catch {
      continue;
    }
  }
  return null;
}

/** Cut inside of quotes: of a value, or of a name. */
function halfTexts(text: string): readonly string[] {
  const half = `${text.replace(/\\(?:u[0-9a-fA-F]{0,3})?$/, "")}"`;
  return [half, `${half}:null`];
}

/** Cut between two values, after a name, before a value, or inside a number or a word. */
function halfValues(text: string): readonly string[] {
  return [text, text.replace(/,\s*$/, ""), `${text}:null`, `${text}null`, text.replace(/[\w.+-]+$/, "null")];
}
