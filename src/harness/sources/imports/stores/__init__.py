"""One file per agent: where its sessions are, and how their records are reworded."""
