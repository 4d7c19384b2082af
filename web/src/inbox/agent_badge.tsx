/** Two letters for an agent: they carry the meaning, the tint only helps. */

import { memo } from "react";

interface Monogram {
  readonly letters: string;
  /** One of the five tints; 0: none. */
  readonly tint: 0 | 1 | 2 | 3 | 4 | 5;
}

/** Letters that people know an agent by, the same as in the terminal. Any other agent has the first two of its name, and a tint by its name. */
const KNOWN: { readonly [name: string]: Monogram } = {
  claude: { letters: "Cl", tint: 1 },
  codex: { letters: "Cx", tint: 2 },
  opencode: { letters: "Oc", tint: 3 },
  gemini: { letters: "Ge", tint: 4 },
  native: { letters: "H", tint: 5 },
  cline: { letters: "Cn", tint: 4 },
  kimi: { letters: "Km", tint: 2 },
  continue: { letters: "Ct", tint: 3 },
};

export function monogram(agentName: string, title: string): Monogram {
  const known = Object.hasOwn(KNOWN, agentName) ? KNOWN[agentName] : undefined;
  if (known) return known;
  const name = title || agentName;
  const letters = `${name.charAt(0).toUpperCase()}${name.charAt(1).toLowerCase()}` || "?";
  let sum = 0;
  for (const letter of agentName || title) sum += letter.codePointAt(0)!;
  return { letters, tint: ((sum % 5) + 1) as Monogram["tint"] };
}

export const AgentBadge = memo(function AgentBadge({ agentName, title }: { readonly agentName: string; readonly title: string }) {
  const { letters, tint } = monogram(agentName, title);
  return (
    <span className="agent" data-tint={tint} role="img" aria-label={title || agentName || "Unknown agent"} title={title || agentName}>
      {letters}
    </span>
  );
});
