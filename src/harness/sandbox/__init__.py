"""Confined programs: which sandbox works here, and what it protects in a workspace."""
