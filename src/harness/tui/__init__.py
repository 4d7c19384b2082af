"""`harness tui`: the inbox in a terminal, with a conversation beside it. Only this package imports Textual."""
