/**
 * Where a text has formulas: `$$…$$`, `\(…\)`, `\[…\]`, and `$…$` where that cannot be an amount of money.
 *
 * All become `$$…$$`, which the parser knows; code is left as it is.
 */

const CODE = /(`+)(?!`)[\s\S]*?[^`]\1(?!`)/g;
const PAREN = /\\\(([\s\S]+?)\\\)/g;
const BRACKET = /\\\[([\s\S]+?)\\\]/g;
/** As pandoc has it: nothing blank inside the signs, and no digit after them. */
const DOLLAR = /(?<![\\$\w])\$(?![\s$])([^$\n]{1,200}?)(?<![\s\\])\$(?![\d$\w])/g;
/** Something that only a formula has; a single letter is one as well. */
const FORMULA = /[\\^_={}<>]|^[a-zA-Z]$|^[a-zA-Z]\s*[+\-*/]|[+\-*/]\s*[a-zA-Z]$/;

export function withFormulas(text: string): string {
  if (!text.includes("$") && !text.includes("\\(") && !text.includes("\\[")) return text;
  let marked = "";
  let from = 0;
  for (const code of text.matchAll(CODE)) {
    marked += marking(text.slice(from, code.index)) + code[0];
    from = code.index + code[0].length;
  }
  return marked + marking(text.slice(from));
}

function marking(text: string): string {
  return text
    .replace(BRACKET, (_, formula: string) => `\n$$\n${formula.trim()}\n$$\n`)
    .replace(PAREN, (_, formula: string) => "$$" + formula.trim() + "$$")
    .replace(DOLLAR, (whole, formula: string) => (FORMULA.test(formula) ? "$$" + formula + "$$" : whole));
}
