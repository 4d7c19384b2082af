"""What the server sends while it changes: states of sessions, rows of the inbox, fleets, views as streams."""
