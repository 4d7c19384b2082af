"""How an exported session looks: light and dark, from a phone to a wide screen, and on paper. No outside references."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--back:#fbfbfa;--card:#fff;--text:#1d1d1f;--dim:#6b6b70;--line:#e3e3e0;--code:#f3f3f1;
--accent:#2f5fd0;--user:#eef3ff;--ok:#1a7f43;--bad:#c0262d;--warn:#9a6700}
@media (prefers-color-scheme:dark){:root{--back:#141416;--card:#1b1b1e;--text:#e8e8ea;--dim:#9a9aa2;--line:#2e2e33;
--code:#232327;--accent:#8fb0ff;--user:#1e2740;--ok:#4cc38a;--bad:#ff7b81;--warn:#e3b341}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--back);color:var(--text);font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
overflow-wrap:anywhere}
header,main,body>footer{max-width:52rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.5rem;padding-bottom:1rem}
h1{font-size:1.5rem;line-height:1.3;margin:0 0 .75rem;letter-spacing:-.01em}
dl{display:flex;flex-wrap:wrap;gap:.15rem 1.5rem;margin:0;color:var(--dim);font-size:.85rem}
dl div{display:flex;gap:.4rem;min-width:0}
dt::after{content:":"}
dd{margin:0;color:var(--text)}
main>*{margin:0 0 .6rem}
.user{background:var(--user);border-radius:.75rem;padding:.75rem 1rem;margin-top:1.75rem}
.said{padding:.15rem 1rem}
.who{font-size:.75rem;color:var(--dim);display:flex;justify-content:space-between;gap:1rem;margin-bottom:.2rem}
.who b{color:var(--text);font-weight:600}
.said p,.user p{margin:.4rem 0;white-space:pre-wrap}
.said h3,.said h4,.said h5,.said h6,.user h3,.user h4{margin:1rem 0 .4rem;font-size:1.05rem;line-height:1.35}
.said ul,.said ol,.user ul,.user ol{margin:.4rem 0;padding-left:1.5rem}
.in1{margin-left:1rem}.in2{margin-left:2rem}.in3,.in4,.in5,.in6{margin-left:3rem}
hr{border:0;border-top:1px solid var(--line);margin:1rem 0}
code,pre,.line{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.84em}
code{background:var(--code);border-radius:.3rem;padding:.1em .3em}
pre{background:var(--code);border-radius:.5rem;padding:.7rem .85rem;margin:.5rem 0;overflow-x:auto;white-space:pre-wrap;
line-height:1.45;max-height:32rem;overflow-y:auto}
pre code{background:none;padding:0;font-size:1em}
.call{border:1px solid var(--line);border-left:3px solid var(--line);border-radius:.5rem;background:var(--card);
padding:.35rem .75rem;margin-left:1rem}
.call.ok{border-left-color:var(--ok)}
.call.failed{border-left-color:var(--bad)}
.line{display:flex;gap:.6rem;align-items:baseline;min-width:0}
.line .what{flex:1;min-width:0}
.line .verb{color:var(--accent)}
.call+.said,.child+.said{margin-top:1.1rem}
.line .mark{color:var(--dim);white-space:nowrap}
.ok>.line .mark,.ok>summary .mark{color:var(--ok)}
.failed>.line .mark,.failed>summary .mark{color:var(--bad)}
summary{cursor:pointer;list-style:none}
summary::-webkit-details-marker{display:none}
summary .line::before{content:"▸";color:var(--dim);transition:transform .1s}
details[open]>summary .line::before{transform:rotate(90deg)}
summary:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:.3rem}
.part{font-size:.7rem;color:var(--dim);margin-top:.5rem;text-transform:uppercase;letter-spacing:.05em}
.thought{margin-left:1rem;color:var(--dim);font-size:.9rem}
.thought p{margin:.3rem 0;white-space:pre-wrap}
.notice{margin-left:1rem;font-size:.88rem;color:var(--dim)}
.notice.error{color:var(--bad)}.notice.warning{color:var(--warn)}
.notice p{margin:0;white-space:pre-wrap}
.child{margin-left:1.5rem;border-left:2px solid var(--line);padding-left:.75rem}
.child2{margin-left:3rem;border-left:2px solid var(--line);padding-left:.75rem}
.end{border-top:1px solid var(--line);margin:1.5rem 0 2rem;padding-top:.6rem;font-size:.85rem;color:var(--dim);
display:flex;flex-wrap:wrap;gap:.25rem 1.25rem}
.end .outcome{font-weight:600}
.end .completed{color:var(--ok)}.end .failed{color:var(--bad)}
body>footer{padding-top:.5rem;padding-bottom:3rem;font-size:.8rem;color:var(--dim)}
@media (max-width:40rem){body{font-size:15px}h1{font-size:1.25rem}header{padding-top:1.25rem}header,main,body>footer{padding-left:.85rem;
padding-right:.85rem}.call,.thought,.notice{margin-left:0}.said{padding-left:.25rem;padding-right:.25rem}
.child{margin-left:.5rem}.child2{margin-left:.75rem}pre{max-height:22rem}dl{gap:.1rem 1rem}}
@media print{:root{--back:#fff;--card:#fff}pre{max-height:none}.call{break-inside:avoid}}
"""
