"""A log as events that say who speaks: each with the id of its run, and of what its run hangs on."""
