"""Views: pure folds of a log into something to read. The name of the file is the name of the view."""

from __future__ import annotations
