"""Sends what a command records to the collector of OpenTelemetry that its options or the settings name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from harness.config import Settings


def add_collector(group: _ActionsContainer) -> None:
    group.add_argument(
        "--otlp",
        default="",
        metavar="URL",
        help="send spans and metrics to this collector of OpenTelemetry, such as http://127.0.0.1:4318; "
        "`env`: the one that OTEL_EXPORTER_OTLP_ENDPOINT names",
    )


def traced(
    settings: Settings, warn: Callable[[str], object], url: str = "", *, content: bool = False
) -> AbstractContextManager[None]:
    """While it is open, all runs of this process are sent. Raises UsageError for what is no address of a collector."""
    url = url or settings.value("otlp.url") or ""
    if not url:
        return nullcontext()
    from harness.clients.span_export import export_spans

    return export_spans(url, content=content or bool(settings.value("otlp.content")), warn=warn)
