"""The configuration: where things are, every setting and its value, trusted projects, names and prices of models."""

from __future__ import annotations

from harness.config.files import (
    PROJECT_FILE,
    PROJECT_FILES,
    ConfigProblem,
    Layer,
    Settings,
    cache_directory,
    config_directory,
    data_directory,
    has_limits,
    load,
    needing_trust,
    own_settings,
    project_files,
    read_file,
    sessions_directory,
    trust_file,
    trust_key,
    user_file,
    window_setting,
)

__all__ = [
    "PROJECT_FILE",
    "PROJECT_FILES",
    "ConfigProblem",
    "Layer",
    "Settings",
    "cache_directory",
    "config_directory",
    "data_directory",
    "has_limits",
    "load",
    "needing_trust",
    "own_settings",
    "project_files",
    "read_file",
    "sessions_directory",
    "trust_file",
    "trust_key",
    "user_file",
    "window_setting",
]
