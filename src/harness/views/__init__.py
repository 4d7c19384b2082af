"""Who reads: pure folds of a log into something to read; the file's name is the view's."""

from __future__ import annotations
