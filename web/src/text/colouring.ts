/** Colour for code of any language: what looks like a comment, a text, a number or a keyword nearly always is one. */

export interface Piece {
  readonly kind: "" | "comment" | "text" | "number" | "keyword" | "added" | "removed" | "place";
  readonly text: string;
}

const KEYWORDS = new Set(
  (
    "abstract and as assert async await bool boolean break case catch char class const continue def default defer del do " +
    "double elif else end enum except export extends extern false final finally float fn for from func function global go " +
    "if impl implements import in int interface is lambda let long loop match mod mut namespace new nil none None not null " +
    "or package pass private protected pub public raise readonly return select self short static str string struct super " +
    "switch then this throw trait true True False try type typeof undefined unsafe use using var void where while with yield"
  ).split(" "),
);

/** Languages whose comments begin with `#`; elsewhere it is too often something else. */
const HASH_COMMENTS = /^(?:py|python|sh|bash|shell|zsh|fish|rb|ruby|yaml|yml|toml|ini|perl|pl|r|make|makefile|dockerfile|conf|nix|elixir|ex|powershell|ps1)$/i;
const DASH_COMMENTS = /^(?:sql|lua|haskell|hs|elm)$/i;
const DIFFS = /^(?:diff|patch)$/i;
const MARKUP = /^(?:html|xml|svg|vue|markdown|md)$/i;

const TEXT = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/;
const NUMBER = /\b(?:0x[\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b/;
const WORD = /\b[A-Za-z_][A-Za-z0-9_]*\b/;

function commentsOf(language: string): string {
  if (MARKUP.test(language)) return "<!--[\\s\\S]*?-->";
  if (HASH_COMMENTS.test(language)) return '"""[\\s\\S]*?"""|#[^\\n]*';
  if (DASH_COMMENTS.test(language)) return "--[^\\n]*|/\\*[\\s\\S]*?\\*/";
  return "//[^\\n]*|/\\*[\\s\\S]*?\\*/";
}

const patterns = new Map<string, RegExp>();

function patternOf(language: string): RegExp {
  const comments = commentsOf(language);
  const known = patterns.get(comments) ?? new RegExp(`(${comments})|(${TEXT.source})|(${NUMBER.source})|(${WORD.source})`, "g");
  patterns.set(comments, known);
  return known;
}

export function coloured(source: string, language: string): readonly Piece[] {
  if (DIFFS.test(language)) return colouredDiff(source);
  const pattern = patternOf(language);
  const pieces: Piece[] = [];
  let plainFrom = 0;
  for (const found of source.matchAll(pattern)) {
    const [text, comment, quoted, number] = found;
    const kind = comment ? "comment" : quoted ? "text" : number ? "number" : KEYWORDS.has(text) ? "keyword" : "";
    if (!kind) continue;
    if (found.index > plainFrom) pieces.push({ kind: "", text: source.slice(plainFrom, found.index) });
    pieces.push({ kind, text });
    plainFrom = found.index + text.length;
  }
  pieces.push({ kind: "", text: source.slice(plainFrom) });
  return pieces;
}

const DIFF_KINDS: { readonly [first: string]: Piece["kind"] } = { "+": "added", "-": "removed", "@": "place" };

function colouredDiff(source: string): readonly Piece[] {
  return source.split(/(?<=\n)/).map((line) => ({ kind: DIFF_KINDS[line[0] ?? ""] ?? "", text: line }));
}
