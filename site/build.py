"""Builds the documentation as a site: `make site`. The pages are those of `docs/`, their order is that of docs/README.md.

usage: python site/build.py ZENSICAL OUTPUT

What is linked must exist, and no page may fetch anything from another host: either ends the build with an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from api_page import api_page

HERE = Path(__file__).parent
ROOT = HERE.parent
DOCS = ROOT / "docs"
PROJECT_PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",  # docs/security.md is another page
    "benchmarks/README.md": "benchmarks.md",
}
"""Documents of the repository that are pages of the site too, under these names."""
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
FETCHED = re.compile(
    r"<(?:script|img|link|iframe|source|video)\b[^>]*?\b(?:src|href)=\"?(https?://[^\"\s>]+)", re.IGNORECASE
)
DESCRIBED = re.compile(r"^\| \[[^\]]+\]\(([\w-]+\.md)\) \| (.+) \|$", re.MULTILINE)
HARMLESS = re.compile(r"rel=\"?(?:canonical|prev|next)")
SUMMARY = "One place where coding agents are run, watched, steered, recorded and compared."


def main(zensical: Path, output: Path) -> int:
    with tempfile.TemporaryDirectory() as place:
        stage = Path(place)
        (stage / "docs").mkdir()
        pages = dict(_pages())
        for name, text in pages.items():
            (stage / "docs" / name).write_text(text, encoding="utf-8")
        for picture in DOCS.glob("*.[ps][nv]g"):
            shutil.copy(picture, stage / "docs")
        settings = (HERE / "zensical.toml").read_text(encoding="utf-8")
        (stage / "zensical.toml").write_text(
            settings.replace("# navigation\n", _navigation(pages)), encoding="utf-8"
        )
        done = subprocess.run([zensical, "build", "--strict", "--clean"], cwd=stage, check=False)
        if done.returncode:
            return done.returncode
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(stage / "site", output)
    _write_for_models(output, pages)
    return _refuse_foreign_hosts(output)


def _pages() -> Iterator[tuple[str, str]]:
    """Every page by its name on the site."""
    for page in sorted(DOCS.glob("*.md")):
        name = "index.md" if page.name == "README.md" else page.name
        yield name, _rewritten(page)
    for path, name in PROJECT_PAGES.items():
        yield name, _rewritten(ROOT / path)
    yield "api.md", api_page()


def _rewritten(page: Path) -> str:
    """Links to other pages lead to them; links to files of the repository, which the site does not have, are their names."""

    def link(found: re.Match[str]) -> str:
        text, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve()
        name = place.relative_to(ROOT).as_posix() if place.is_relative_to(ROOT) else ""
        if place == DOCS / "README.md" or name == "README.md":
            there = "index.md"
        elif place.parent == DOCS and place.suffix == ".md":
            there = place.name
        elif name in PROJECT_PAGES:
            there = PROJECT_PAGES[name]
        else:
            return f"`{name}`" if text.strip("`") in (name, path) else f"{text} (`{name}`)"
        shown = _title(place.read_text(encoding="utf-8")) if text in (path, place.name) else text
        return f"[{shown}]({there}{'#' + anchor if anchor else ''})"

    def outside_of_code(text: str) -> str:
        return PICTURE.sub(lambda found: f"![{found[1]}]({Path(found[2]).name})", LINK.sub(link, text))

    parts = re.split(r"(^```.*?^```$)", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else outside_of_code(part) for part in parts)


def _doors(pages: dict[str, str]) -> dict[str, list[str]]:
    """The doors of docs/README.md with their pages; then what belongs to the project."""
    doors: dict[str, list[str]] = {}
    for heading, body in re.findall(
        r"^## (.+?)\n(.*?)(?=^## |\Z)", pages["index.md"], re.MULTILINE | re.DOTALL
    ):
        names = [name for name in re.findall(r"\]\(([\w-]+\.md)\)", body) if name in pages]
        if set(names).difference(*doors.values()):
            doors[heading] = list(dict.fromkeys(names))
    doors["Reference"].append("api.md")
    doors["The project"] = [*PROJECT_PAGES.values()]
    listed = {name for names in doors.values() for name in names} | {"index.md"}
    missing = set(pages) - listed
    if missing:
        raise SystemExit(f"docs/README.md does not lead to: {', '.join(sorted(missing))}")
    return doors


def _navigation(pages: dict[str, str]) -> str:
    lines = ["nav = [", '  { "Home" = "index.md" },']
    for heading, names in _doors(pages).items():
        entries = ", ".join(f'{{ "{_title(pages[name])}" = "{name}" }}' for name in names)
        lines.append(f'  {{ "{heading}" = [{entries}] }},')
    return "\n".join([*lines, "]", ""])


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1].replace("`", "").replace('"', "'") if found else "?"


def _write_for_models(output: Path, pages: dict[str, str]) -> None:
    """llms.txt: which pages there are, by door, each with what docs/README.md says of it; llms-full.txt: all of them."""
    subjects = dict(DESCRIBED.findall(pages["index.md"]))
    lines = ["# Harness", "", f"> {SUMMARY}", "", "- [Documentation](./): all pages, and a tour"]
    listed: set[str] = set()
    for heading, names in _doors(pages).items():
        lines += ["", f"## {heading}", ""]
        for name in (name for name in names if name not in listed):
            subject = LINK.sub(r"\1", subjects.get(name, "")).removeprefix("… ")
            lines.append(f"- [{_title(pages[name])}]({_place(name)}){subject and f': {subject}'}")
        listed |= set(names)
    (output / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (output / "llms-full.txt").write_text("\n\n".join(pages.values()), encoding="utf-8")


def _place(name: str) -> str:
    """Where the site has a page, from its root."""
    return "./" if name == "index.md" else f"{name.removesuffix('.md')}/"


def _refuse_foreign_hosts(output: Path) -> int:
    foreign = {
        f"{page.relative_to(output)}: {found[1]}"
        for page in output.rglob("*.html")
        for found in FETCHED.finditer(page.read_text(encoding="utf-8"))
        if not HARMLESS.search(found[0])
    }
    for place in sorted(foreign):
        print(f"fetched from another host: {place}", file=sys.stderr)
    return 1 if foreign else 0


if __name__ == "__main__":
    sys.exit(main(*(Path(word).absolute() for word in sys.argv[1:])))
