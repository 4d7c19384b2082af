"""A log as events that name their run: each has the id of its run, and of the run's parent."""
