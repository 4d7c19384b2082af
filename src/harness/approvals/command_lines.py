"""The commands of a shell line, for rules that allow single commands: a small part of the grammar, known exactly.

The splitter that describes what was run (`formats/shell`) reads much more, and can be led to take a command for a
quoted word (`"${x#'"'}" ; rm y # '`). That does not matter in a description, and would here.
"""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"""
    (?P<continuation>\\\n)
  | (?P<nothing>
        [ \t]+
      | (?:(?<![^\s;|&])[0-9])?>&[0-9](?![^\s;|&])              # 2>&1
      | (?:(?<![^\s;|&])[0-9])?>>?[ \t]*/dev/null(?![^\s;|&])   # 2> /dev/null, not &>: dash ends a command there
      | <[ \t]*/dev/null(?![^\s;|&])
    )
  | (?P<separator>&&|\|\||\|&|[;|&\n])
  | (?P<word>
        [^\x00-\x20\x7f'"\\$`|&;<>()\#]+
      | '[^']*'
      | "(?:[^"\\$`]|\\[^\n]|\$(?:\w+|\{\w+\}))*"
      | \\[^\n]
      | \$(?:\w+|\{\w+\}|[?@*!$](?![\w'"(\[{]))
    )
    """,
    re.VERBOSE | re.ASCII,
)


def commands_of(line: str) -> list[str] | None:
    """The simple commands of a line as they are written, blanks made one; None when that is not certain.

    Not certain is whatever hides a command or does more than run one: substitutions, subshells, files
    that are read or written by redirection, here-documents, expansions with operators, comments.
    """
    commands: list[list[str]] = [[]]
    position = 0
    while position < len(line):
        piece = _PIECE.match(line, position)
        if piece is None:
            return None
        position = piece.end()
        words = commands[-1]
        match piece.lastgroup:
            case "separator":
                commands.append([])
            case "word":
                words.append(piece[0])
            case "nothing" if words and words[-1] != " ":
                words.append(" ")
    return [text for words in commands if (text := "".join(words).removesuffix(" "))]
