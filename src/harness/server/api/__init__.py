"""The HTTP routes of the server, one file for each part of `/api`."""
