"""The demonstration of `harness demo`: a small project with a mistake in it, and what a scripted model says of it."""
