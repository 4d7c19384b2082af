"""From an agent's bytes to the events of its run, and the proof that a log says what its raw record says."""
