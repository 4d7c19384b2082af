// Formulas are told from money and from code.
import assert from "node:assert/strict";
import { test } from "node:test";
import { withFormulas } from "./dist/subject.js";

test("money stays money", () => {
  for (const text of ["It costs $5 and $10.", "from $5/$10 up to $3", "US$ 5 = $ 6", "$HOME and $PATH", "a $5 b", "`$x^2$` and ``a `$y_1$` b``", "pay $20, not $30 more"]) assert.equal(withFormulas(text), text);
});

test("formulas are marked for the parser", () => {
  assert.equal(withFormulas("so $x^2 + y$ holds"), "so $$x^2 + y$$ holds");
  assert.equal(withFormulas("for \\(n\\) terms"), "for $$n$$ terms");
  assert.equal(withFormulas("\\[\\int_0^1 x\\,dx\\]"), "\n$$\n\\int_0^1 x\\,dx\n$$\n");
  assert.equal(withFormulas("let $n$ be `$n$`"), "let $$n$$ be `$n$`");
});
