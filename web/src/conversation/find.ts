/** Find in all of the conversation, also in what is not drawn. */

import { textOf } from "./item_text.js";
import type { Item } from "./items.js";

export interface Match {
  readonly index: number;
  readonly key: string;
  /** Which one within its item. */
  readonly occurrence: number;
}

const MATCHES_MAX = 10_000;
/** Signs of markdown that are not seen where it is shown. */
const UNSEEN_SIGNS = /\*\*|~~|`/g;

export class Finder {
  readonly #texts = new WeakMap<Item, string>();

  find(items: readonly Item[], wanted: string): readonly Match[] {
    const query = searchable(wanted);
    if (!query.trim()) return [];
    const matches: Match[] = [];
    for (let index = 0; index < items.length && matches.length < MATCHES_MAX; index++) {
      const item = items[index]!;
      const text = this.#text(item);
      let occurrence = 0;
      for (let at = text.indexOf(query); at >= 0; at = text.indexOf(query, at + query.length)) matches.push({ index, key: item.key, occurrence: occurrence++ });
    }
    return matches;
  }

  #text(item: Item): string {
    const known = this.#texts.get(item) ?? searchable(textOf(item));
    this.#texts.set(item, known);
    return known;
  }
}

export function searchable(text: string): string {
  return text.replace(UNSEEN_SIGNS, "").toLowerCase();
}
