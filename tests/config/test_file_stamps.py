"""Settings and prices are read again when their file has changed, and only then."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.config import files
from harness.config.file_stamps import stamp_of
from harness.usage import prices


def _aged(path: Path) -> None:
    """As if it had been written some time ago; its `ctime` cannot be set, so wait until that counts."""
    os.utime(path, (1_700_000_000, 1_700_000_000))
    while stamp_of(str(path)) is None:
        time.sleep(0.01)


def test_a_file_that_has_just_been_written_is_always_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    for agent in ("pi", "qx", "pi"):  # of equal length, faster than a file system counts
        path.write_text(f'default_agent = "{agent}"\n')
        assert files.read_file(str(path), is_personal=True).values["default_agent"] == agent


def test_a_file_is_parsed_once_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, parsed = tmp_path / "config.toml", []
    original = files._parsed
    monkeypatch.setattr(files, "_parsed", lambda *a, **k: (parsed.append(1), original(*a, **k))[1])
    path.write_text('default_agent = "pi"\n')
    _aged(path)
    first = files.read_file(str(path), is_personal=True)
    first.values["default_agent"] = "changed by its reader"
    assert files.read_file(str(path), is_personal=True).values["default_agent"] == "pi"
    assert len(parsed) == 1
    path.write_text('default_agent = "qx"\n')
    _aged(path)  # the same size and time as before
    assert files.read_file(str(path), is_personal=True).values["default_agent"] == "qx"


def test_the_built_in_prices_are_parsed_once() -> None:
    assert prices.read(prices.BUILT_IN)[1] is prices.read(prices.BUILT_IN)[1]


def test_a_configuration_that_is_no_file_is_ignored_at_once(tmp_path: Path) -> None:
    """A pipe would be waited for, and a device has no end."""
    pipe, link, large = tmp_path / "pipe.toml", tmp_path / "link.toml", tmp_path / "large.toml"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    large.write_bytes(b"#" * (5 << 20))
    for path, trouble in (
        (pipe, "not a file"),
        (link, "not a file"),
        (large, "larger than 4 MB"),
        (tmp_path, "Is a directory"),
    ):
        [problem] = files.read_file(str(path), is_personal=True).problems
        assert trouble in problem.message


def test_an_empty_home_is_not_the_root_of_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    from harness.config.files import config_directory

    monkeypatch.setenv("HOME", "")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert config_directory() == os.path.join(home, ".config", "harness")
