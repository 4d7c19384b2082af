"""The files a loop works on: where it may look and write, and how that is done safely."""

from __future__ import annotations
