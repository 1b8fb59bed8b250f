"""The status page in a real browser: on a phone and a screen, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import PROGRAM, Browser, browser
from tests.unit.monitoring.sample_page import HOSTILE, hostile, sample

PHONE, SCREEN = 360, 1280

CONTRASTS = """
(() => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const light = text => {
    const linear = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = channels(text).map(c => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (channels(colour)[3] !== 0) return colour;
    }
    return getComputedStyle(document.documentElement).backgroundColor;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.data.trim() || !e.getClientRects().length || e.localName === 'title') continue;
    const style = getComputedStyle(e);
    const front = light(e.namespaceURI.endsWith('svg') ? style.fill : style.color), back = light(behind(e));
    found.push([(Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05), node.data.trim()]);
  }
  return found;
})()
"""
"""The contrast of each visible text with what is behind it, as WCAG 2 defines it."""

LABELS = """
[...document.querySelectorAll('svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  const of = kind => [...svg.querySelectorAll(kind)].map(e => e.getBoundingClientRect());
  const across = r => r.left >= box.left - 1 && r.right <= box.right + 1;
  const inside = r => across(r) && r.top >= box.top - 1 && r.bottom <= box.bottom + 1;
  const x = of('text.x').sort((a, b) => a.left - b.left);
  return {
    title: svg.parentElement.querySelector('figcaption').innerText,
    y: of('text.y').length, x: x.length,
    outside: of('text').filter(r => !inside(r)).length,
    overlaps: x.filter((r, n) => n && r.left < x[n - 1].right).length,
    height: Math.min(...of('text').map(r => r.height)),
  };
})
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not PROGRAM.exists():
        pytest.skip("no browser: `make browser` fetches one for Linux on x86-64")
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "status.html"
    path.write_text(sample(), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_it_fits_is_readable_and_has_its_axes(tab: Browser, page: Path, width: int, scheme: str) -> None:
    tab.open(page, width=width, scheme=scheme)

    assert tab.evaluate("document.documentElement.scrollWidth") == width
    contrasts = tab.evaluate(CONTRASTS)
    assert len(contrasts) > 100
    assert [each for each in contrasts if each[0] < 4.5] == []
    is_dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert is_dark is (scheme == "dark")
    plots = tab.evaluate(LABELS)
    assert len(plots) == 12
    for plot in plots:
        assert plot["title"]
        assert plot["y"] >= 2
        assert plot["x"] >= 3
        assert (plot["outside"], plot["overlaps"]) == (0, 0), plot
        assert plot["height"] >= 11, plot
    assert tab.complaints == []


def test_texts_of_strangers_are_shown_and_not_run(tab: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(hostile(), encoding="utf-8")

    tab.open(path, width=PHONE, scheme="light")

    assert tab.evaluate("[document.scripts.length, document.images.length, document.title]") == [0, 0, HOSTILE]
    assert tab.evaluate("document.querySelector('h1').innerText") == HOSTILE
    assert tab.evaluate("document.documentElement.scrollWidth") == PHONE
    assert tab.complaints == []


def test_the_browser_would_notice_a_script_and_what_it_loads(tab: Browser, tmp_path: Path) -> None:
    """The checks above can fail: without escaping and without the policy, the browser complains."""
    path = tmp_path / "open.html"
    path.write_text("<title>x</title><script>console.log('ran')</script><img src=missing.png>", encoding="utf-8")

    tab.open(path, width=PHONE, scheme="light")

    assert any("consoleAPICalled" in each for each in tab.complaints)
    assert any("missing.png" in each for each in tab.complaints)
