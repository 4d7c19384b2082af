"""Fleets: tasks × variants × repeats, each run a session, scored by a check and compared."""
