"""Where plan, claims and results of a fleet are stored: a folder, or a PostgreSQL database."""
