"""The agent loop of this process: ask a model, call tools, until the model is done."""

from __future__ import annotations
