/** The style of the try page, light and dark. */
export const tryStyle = `
:root { color-scheme: light dark; --bg: #faf7f3; --card: #fff; --text: #1f1a17; --soft: #6b615a; --line: #e2d9d0; --accent: #b3400f; --on-accent: #fff; --good: #1c6b3f; --bad: #a31d1d; --code: #f5efe8; }
@media (prefers-color-scheme: dark) { :root { --bg: #171311; --card: #211b18; --text: #f2ebe5; --soft: #b3a79e; --line: #3a312c; --accent: #ff8a4c; --on-accent: #1f1007; --good: #6fd39b; --bad: #ff8f8f; --code: #1a1513; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
header, main { max-width: 68rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2rem; }
h1 { margin: 0; font-size: 2rem; letter-spacing: -0.02em; display: flex; align-items: center; gap: 0.4rem; }
h1 svg { width: 1.9rem; fill: var(--accent); }
header p { margin: 0.25rem 0 1.5rem; color: var(--soft); }
a { color: var(--accent); }
main { display: grid; gap: 1.25rem; grid-template-columns: minmax(0, 26rem) minmax(0, 1fr); align-items: start; padding-bottom: 3rem; }
@media (max-width: 52rem) { main { grid-template-columns: minmax(0, 1fr); } }
form, section { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 1.25rem; }
h2 { font-size: 1.05rem; margin: 1.5rem 0 0.5rem; } h2:first-child { margin-top: 0; }
label, legend { display: block; font-weight: 600; margin: 1rem 0 0.3rem; padding: 0; } form > label:first-child { margin-top: 0; }
.optional { font-weight: 400; color: var(--soft); }
.help { margin: 0.3rem 0 0; color: var(--soft); font-size: 0.875rem; }
input:not([type=radio]), textarea, select { width: 100%; font: inherit; color: inherit; background: var(--bg); border: 1px solid var(--line); border-radius: 8px; padding: 0.55rem 0.7rem; }
textarea { resize: vertical; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
fieldset { border: 0; margin: 1rem 0 0; padding: 0; min-width: 0; }
.kinds { display: grid; grid-template-columns: 1fr 1fr; gap: 0.5rem; }
.kinds label { position: relative; margin: 0; font-weight: 500; cursor: pointer; }
.kinds input { position: absolute; opacity: 0; }
.kinds span { display: block; text-align: center; padding: 0.5rem; border: 1px solid var(--line); border-radius: 8px; background: var(--bg); }
.kinds input:checked + span { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent); font-weight: 600; }
.kinds input:focus-visible + span { outline: 3px solid var(--accent); outline-offset: 2px; }
button { font: inherit; font-weight: 600; border-radius: 8px; padding: 0.65rem 1rem; border: 1px solid var(--accent); cursor: pointer; background: transparent; color: var(--accent); }
button[type=submit] { width: 100%; margin-top: 1.25rem; background: var(--accent); color: var(--on-accent); }
button:disabled { opacity: 0.55; cursor: progress; }
#status { margin: 0; } #status b { font-weight: 600; } .good { color: var(--good); } .bad { color: var(--bad); }
#output:not(:empty) { margin: 0.75rem 0; } #output audio { width: 100%; } #output img { max-width: 100%; height: auto; border-radius: 10px; display: block; }
#output blockquote { margin: 0 0 0.75rem; padding: 0.75rem 1rem; background: var(--code); border-left: 3px solid var(--accent); border-radius: 0 8px 8px 0; white-space: pre-wrap; overflow-wrap: anywhere; }
#log { list-style: none; margin: 0; padding: 0; max-height: 26rem; overflow: auto; } #log:empty::after { content: "Nothing sent yet."; color: var(--soft); }
#log li { border-top: 1px solid var(--line); padding: 0.5rem 0; } #log li:first-child { border-top: 0; }
code, pre { font: 0.82rem/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { background: var(--code); border-radius: 8px; padding: 0.6rem 0.75rem; margin: 0.4rem 0 0; white-space: pre-wrap; max-height: 16rem; overflow: auto; }
[hidden] { display: none !important; }
`
