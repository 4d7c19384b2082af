"""A conversation as a graph, and its projections: a thread, messages, turns, a drawing."""
