"""What a log is at a moment: pure folds, which the views write down and the interfaces show."""

from __future__ import annotations
