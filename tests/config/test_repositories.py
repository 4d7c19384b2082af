"""Under which folder a session is listed."""

from __future__ import annotations

import pytest

from harness.clients.inbox.projects import Projects
from harness.config.repositories import listed_folder

CASE = "/data/fleets/shop/work/a91c3db59303/repo"


def test_cases_have_their_workspace_beside_the_fleet() -> None:
    assert listed_folder("/data/fleets/.harness-work/shop/a91c3db59303/repo/src") == "/data/fleets/shop"
    assert listed_folder("/x/.harness-work/shop/mine/repo") == "/x/.harness-work/shop/mine/repo"


def test_all_cases_of_a_fleet_are_listed_under_it() -> None:
    assert listed_folder(CASE) == listed_folder(f"{CASE}/src/cart") == "/data/fleets/shop"
    project = Projects().of(CASE).project
    assert (project.root, project.name) == ("/data/fleets/shop", "fleet shop")


@pytest.mark.parametrize(
    "folder",
    ["", "/home/me/shop", "/data/fleets/shop", "/data/fleets/shop/work", "/data/fleets/shop/work/mine/repo"],
)
def test_other_folders_are_listed_as_they_are(folder: str) -> None:
    assert listed_folder(folder) == folder
