"""What a person is asked, the choices, and the answers, which are checked in one place."""

from __future__ import annotations
