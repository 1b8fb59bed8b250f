"""The style sheet of the page: light and dark by the reader's setting, and in one column on a phone."""

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --card: #f5f6f8; --text: #1b1f24; --muted: #57606a; --rule: #d0d7de;
  --bad: #b3261e; --bad-back: #fdeceb; --warn: #7a4d00; --warn-back: #fff4da; --good: #1a6334; --good-back: #e3f5e8;
  --blue: #0b62b8; --green: #1f7a3f; --red: #c62828; --violet: #6b46c1; --amber: #b45309; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171a; --card: #1e2328; --text: #e8eaed; --muted: #a5afba; --rule: #3a424b;
    --bad: #ffb4ab; --bad-back: #4a1d1a; --warn: #ffd591; --warn-back: #41310f; --good: #9be2b1; --good-back: #15381f;
    --blue: #6cb2ff; --green: #5cc480; --red: #ff8a80; --violet: #b79cff; --amber: #ffb74d; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 88rem; padding: 1rem; background: var(--page); color: var(--text);
  font: 1rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Open Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 1.5rem 0 0.5rem; }
a { color: inherit; }
code { font-size: 0.9em; background: var(--card); padding: 0 0.2em; border-radius: 3px; }
.when, .none { color: var(--muted); margin: 0.25rem 0; }
.box { border-radius: 6px; padding: 0.6rem 0.9rem; margin: 0.5rem 0; border-left: 4px solid; }
.box p { margin: 0.2rem 0; }
.bad { color: var(--bad); background: var(--bad-back); }
.warn { color: var(--warn); background: var(--warn-back); }
.good { color: var(--good); background: var(--good-back); }
.box code { background: none; padding: 0; font-weight: 600; }
.badge { display: inline-block; padding: 0.05rem 0.5rem; border-radius: 1rem; font-size: 0.85rem; font-weight: 600;
  white-space: nowrap; }
table { border-collapse: collapse; width: 100%; font-size: 0.95rem; }
th, td { text-align: left; padding: 0.3rem 0.5rem; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--muted); font-weight: 600; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
details { border: 1px solid var(--rule); border-radius: 6px; margin: 0.6rem 0; padding: 0 0.9rem; }
summary { cursor: pointer; padding: 0.6rem 0; font-weight: 600; }
summary .badge { margin-left: 0.5rem; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 0.6rem; margin: 0 0 0.8rem; }
dt { color: var(--muted); font-size: 0.85rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
ul { margin: 0.2rem 0 0.8rem; padding-left: 1.2rem; }
.plots { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 0.9rem; margin-bottom: 0.9rem; }
@media (max-width: 70rem) { .plots { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@media (max-width: 40rem) { .plots { grid-template-columns: minmax(0, 1fr); } }
figure { margin: 0; background: var(--card); border-radius: 6px; padding: 0.6rem; min-width: 0; }
figcaption { font-size: 0.85rem; margin-bottom: 0.3rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--muted); font-size: 12px; }
svg text.y { text-anchor: end; }
svg text.x { text-anchor: middle; }
svg text.first { text-anchor: start; }
svg text.last { text-anchor: end; }
.grid { stroke: var(--rule); }
.line { fill: none; stroke: var(--blue); stroke-width: 1.5; stroke-linejoin: round; }
.dot { fill: var(--blue); }
.bar { fill: var(--green); }
.bar.reject { fill: var(--red); }
.bar.size { fill: var(--violet); }
.bar.small { fill: var(--amber); }
@media (max-width: 40rem) { .wide { display: none; } th, td { padding: 0.3rem 0.25rem; }
  dl { grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); } }
"""
