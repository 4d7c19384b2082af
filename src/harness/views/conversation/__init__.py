"""A conversation as a graph, and what can be read from one: a thread, messages, turns, a drawing."""
