// Texts that would run, load or lead somewhere on a page that trusted them; each would set `window.__ran`.
export const HOSTILE_TEXTS = [
  `<script>window.__ran=1</script>`, `<img src=x onerror=window.__ran=1>`, `<svg onload=window.__ran=1>`, `"><script>window.__ran=1</script>`,
  `'><img src=x onerror=window.__ran=1>`, `javascript:window.__ran=1`, `JaVaScRiPt:window.__ran=1`, `java\nscript:window.__ran=1`, `&#106;avascript:window.__ran=1`, `data:text/html,<script>window.__ran=1</script>`,
  `vbscript:window.__ran=1`, `<iframe src=javascript:window.__ran=1>`, `<iframe srcdoc="<script>parent.__ran=1</script>">`, `<body onload=window.__ran=1>`, `<details open ontoggle=window.__ran=1>`,
  `<math><mtext></form><form><mglyph><style></math><img src onerror=window.__ran=1>`, `<a href="javascript:window.__ran=1">x</a>`, `[x](javascript:window.__ran=1)`, `[x](javascript&#58;window.__ran=1)`, `[x](JAVASCRIPT:window.__ran=1)`,
  `[x](data:text/html;base64,PHNjcmlwdD53aW5kb3cuX19wd25lZD0xPC9zY3JpcHQ+)`, `![x](x" onerror="window.__ran=1)`, `![x](javascript:window.__ran=1)`, `[x](vbscript:window.__ran=1)`, `<javascript:window.__ran=1>`,
  `<style>@import 'javascript:window.__ran=1'</style>`, `<link rel=stylesheet href=javascript:window.__ran=1>`, `<object data=javascript:window.__ran=1>`, `<embed src=javascript:window.__ran=1>`, `<form action=javascript:window.__ran=1><button>x</button></form>`,
  `<input autofocus onfocus=window.__ran=1>`, `<video><source onerror=window.__ran=1></video>`, `<audio src=x onerror=window.__ran=1>`, `<marquee onstart=window.__ran=1>`, `<base href=javascript:window.__ran=1//>`,
  `<meta http-equiv=refresh content="0;url=javascript:window.__ran=1">`, "```html\n<script>window.__ran=1</script>\n```", "`<img src=x onerror=window.__ran=1>`", `<x onclick=window.__ran=1>x</x>`, `\u0000<script>window.__ran=1</script>`,
  `<scr<script>ipt>window.__ran=1</script>`, `%3Cscript%3Ewindow.__ran=1%3C/script%3E`, `</textarea><script>window.__ran=1</script>`, `</title><script>window.__ran=1</script>`, `<!--<script>window.__ran=1</script>-->`,
  `<template><script>window.__ran=1</script></template>`, `{{constructor.constructor('window.__ran=1')()}}`, `\${window.__ran=1}`, `blob:http://x/window.__ran=1`, `__proto__`, `constructor`, `[x]: javascript:window.__ran=1\n[x]`,
];
