"""The folders that conversations work in: which there are, what is in them, and worktrees made for a run."""
