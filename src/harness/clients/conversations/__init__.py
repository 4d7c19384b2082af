"""Conversations of this machine: what runs them, for the server, the terminal and the inbox."""
