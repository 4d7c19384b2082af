"""A thread as its users see it: events with the names of the Harness class, messages, and the display state."""
