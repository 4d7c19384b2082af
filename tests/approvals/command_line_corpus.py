"""Command lines of every kind: those that must be asked about, and those that agents write to look around."""

from __future__ import annotations

_DOING_MORE = r"""
cat /etc/passwd
cd deep/.. && cat ../secret
cd deep/../ && head -n 1 ../secret
cd deep/.. && cat link-out
cat deep/../../secret
diff left right
diff -s left right
diff left/passwd right
od -c -w 16
od -w 16 a
cat ../secret
cat ~/x
cat $HOME/x
cat link-out
cat dir-out/hostname
ls -L dir-out
ls dir-out
head -c5 dir-out/hostname
grep -R x .
grep -r x dir-out
rg -L x
rg --follow x
rg --pre=./evil x
rg --pre ./evil x
rg --hostname-bin=./evil x
rg -z x
rg --search-zip x
rg -f /etc/passwd x
rg --ignore-file=/etc/passwd x
rg --files /etc
rg --files dir-out
rg --debug x
grep -f /etc/passwd a
grep -f evil a
grep --file=evil a
grep --fil=evil a
grep -e x /etc/passwd
grep x /etc/passwd
grep -ex /etc/passwd
grep -A3 x /etc/passwd
grep -A 3 x /etc/passwd
grep -- x /etc/passwd
grep --include=*.py -r x .
find / -name x
find -L . -name x
find . -L
find . -follow
find . -exec ./evil {} +
find . -execdir ./evil +
find . -fls P
find . -fprint0 P
find . -files0-from /etc/passwd
find -files0-from a
find . -newer /etc/passwd
find . -samefile /etc/passwd
find . -delete
find . '-delete'
find . "-exec" ./evil ';'
find . -okdir ./evil ';'
find dir-out -name x
find -H dir-out
sort -o P a
sort -oP a
sort --output=P a
sort --outp=P a
sort -T /tmp a
sort --compress-prog=./evil a
sort --files0-from=a
sort -S1 a
uniq a P
uniq -c a P
uniq a - P
tr a b > P
cut -f1 a > P
wc --files0-from=a
du --files0-from=a
du -L dir-out
du dir-out
du -D dir-out
du -X /etc/passwd .
tree -o P
tree -l
tree --fromfile a
tree dir-out
tree -R -H x -L 1
diff a /etc/passwd
diff -r . dir-out
diff --to-file=/etc/passwd a
diff --from-file=/etc a
diff -X /etc/passwd a b
cmp a /etc/passwd
stat -L link-out
stat /etc/passwd
od /etc/passwd
od -t x1 /etc/passwd
nl /etc/passwd
tail -f a
tail -F a
tail --pid=1 a
tail --follow=name a
tail -n+1 /etc/passwd
head --lines=3 /etc/passwd
date -s tomorrow
date -f a
date --set=x
date -r /etc/passwd
which ./evil
echo $HOME
echo "$HOME"
echo `id`
echo a>P
echo a >P
echo a 2>P
echo a 2>/dev/nullx
echo a 2>/dev/null/../P
echo a 2>&1P
echo a2>/dev/null
echo a 1>&2
echo a &
echo a & ./evil
echo a |& cat
echo a ;; cat
echo a ;& cat
echo a || | cat
sed -n 1p /etc/passwd
sed -n '1p;w P' a
sed -n '1w P' a
sed -n '1e ./evil' a
sed -n 1p -i a
sed -n '1p' a -i
sed -n '1p' a --in-place
sed -i -n 1p a
sed 1p a
sed -n -e 1p a
sed -n 's/a/b/p' a
sed -n '1p' a -f evil.sed
sed -n '/x/p' a
sed --posix -n 1p a
awk '{print}' a
jq . a
xxd a
less a
file a
git status
git log
git diff
git --no-pager log
env
printenv
cat a; ./evil
cat a;./evil
cat a&&./evil
cat a|./evil
cat a|sh
cat a | xargs ./evil
./cat a
bin/cat a
cat=1 cat a
A=1 cat a
PATH=. ls
=ls
ls =evil
Cat a
CAT a
'cat' a
"cat" a
c'a't a
cat a\
cat a \; ./evil
cat "a\"; ./evil; \""
cat 'a\'; ./evil #'
cat a # x
cat #x
cat a*
cat a?
cat [a]
cat {a,b}
cat ~root/x
cat a{1..3}
cat !$
cat "!x"
cat $'a'
cat $"a"
cat <a
cat <<<a
cat <(./evil)
(cat a)
{ cat a; }
! cat a
time cat a
if true; then ./evil; fi
cd / && cat etc/passwd
cd .. && ls
cd dir-out && cat hostname
cd - && ls
cd
cd && cat x
cd ~ && ls
cd sub && cat ../../secret
cd sub && cat /etc/passwd
cd -P / && ls
cd sub; cd ..; cd ..; ls
pushd sub
cd nope; cat link-out
cd nope || cat link-out
cd nope | cat link-out
cd nope && ls; cat link-out
cd nope && ls || cat link-out
cat link-out && cd sub
ls && cd nope && cat link-out
cd sub && cat link-up/secret
cd nope && cd .. && cat link-out
cd sub && cd nope; cat link-out
cat a 2>/dev/null link-out
grep -e x link-out
grep -rex link-out
rg -ex link-out
rg --files link-out
head -n 1 link-out
ls -I x /etc
ls -w80 /etc
cut -d: -f1 link-out
sort -k1 link-out
du -d1 dir-out
tree -L 1 dir-out
od -A x link-out
nl -b a link-out
tail -c+1 link-out
diff -U3 a link-out
find sub/link-up -name secret
find . -path x dir-out
cat sub/link-up/secret
tree sub/link-up/
ls sub/link-up/
cat /proc/self/environ
cat /dev/tcp/1.2.3.4/80
ls /
ls /root
ls ..
ls sub/../..
cat sub/../../secret
cat ./link-out
cat sub/link-up/secret
head -n 1 -- /etc/passwd
test -f a
[ -f a ]
printf x
tee P
read x
source evil
. evil
exec cat a
command cat a
builtin echo a
eval cat a
bash -c ls
sh -c ls
env ls
nice ls
timeout 1 ls
watch ls
sudo ls
busybox ls
python3 -c 1
node -e 1
make
npm test
cp a b
mv a b
rm a
touch P
mkdir P
ln -s / x
chmod +x a
tar cf P a
curl x
"""
DOING_MORE = (
    *_DOING_MORE.strip("\n").split("\n"),
    "cat a\n./evil",
    "cat a\r./evil",
    "cat\ta",
    "cat a\x0b",
    "cat a\x00",
    "cat a\u00a0b",
    "cat \u202ea",
    "cat a\u2028./evil",
    "cat 'a\n./evil'",
    "echo a" + " " * 3000,
    "cat é",
)
"""Writes, runs a program, reads elsewhere, or cannot be read in one way only."""
_READING = r"""
ls
ls -la
ls -la sub
ls -lah ./sub
ls -1 sub
ls -R sub
cat a
cat a b
cat -n a
cat sub/c.py
head -5 a
head -n 5 a
head -n5 a
head -c 100 a
tail -20 a
tail -n 20 a
tail -n +5 a
wc -l a
wc -l a b sub/c.py
nl -ba a
grep -n 1 a
grep -rn "def main" .
grep -rn 'def main' sub --include='*.py'
grep -rniE "foo|bar" sub
grep -c x a
grep -rl x sub
grep -A3 -B2 x a
grep -A 3 x a
grep -e x -e y a
grep -rn "a && b; c" .
rg x
rg -n x sub
rg "fn (main|test)" -g '*.rs'
rg --files
rg --files -g '*.py'
rg -l x .
rg -i "error: .*" sub
rg -t py x
rg --hidden -n x
rg -A 3 -B 3 x a
find . -name '*.py'
find . -name "*.py" -type f
find sub -type f
find . -maxdepth 2 -type d
find . -type f -name '*.py' -not -path './node_modules/*'
find . -name a -o -name b
find . -mtime -1
sed -n 1,5p a
sed -n '1,5p' a
sed -n '10,20p' sub/c.py
sed -n '5p' a
sort a
sort -u a
sort -k2 -n a
sort -t, -k2 a
uniq a
uniq -c a
cut -d: -f1 a
cut -d, -f2 a
stat a
stat -c %s a
du -sh .
du -sh sub
tree
tree -L 2
tree -a -L 2 -I 'node_modules'
diff a b
diff -u a b
cmp a b
od -c a
pwd
echo hello
echo "hello world"
date
date +%Y
which python3
basename sub/c.py
dirname sub/c.py
cat a | head -5
cat a | grep 1
cat a | grep 1 | wc -l
grep -rn x . | head -20
rg x | head
rg -l x | sort | uniq -c
find . -name '*.py' | head -20
find . -name '*.py' | wc -l
ls -la | head
ls | wc -l
cat a | sort | uniq -c | sort -rn | head -5
cat a && cat b
cat a; cat b
ls && cat a
pwd && ls -la
cd sub && ls
cd sub && cat c.py
cd sub && grep -n x c.py | head -3
cat a 2>/dev/null
ls -la 2>&1
grep -rn x . 2>/dev/null | head -5
find . -name x 2>/dev/null
cat a 2>/dev/null || echo none
ls sub 2>/dev/null || true
cat a | tr a-z A-Z
cat a | cut -c1-10
echo "---" && cat a
wc -l a && head -3 a
ls -la sub && cat sub/c.py
head -50 a; echo ---; head -50 b
true
"""
READING = tuple(_READING.strip("\n").split("\n"))
"""Reads below the folder."""
