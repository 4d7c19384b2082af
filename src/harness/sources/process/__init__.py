"""Agents that are programs: found, started, read, limited, recorded, and stopped with all that they started."""
