"""Take the picture of the status page in docs/: `python -m tests.browser.picture`, after `make browser`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from frazil.monitoring.page import status_page
from tests.browser.chromium import browser
from tests.unit.monitoring.sample_page import HISTORIES, KEYS, NOW, TABLES

PICTURE = Path("docs/status.png")
WIDTH, HEIGHT = 1200, 760


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "status.html"
        page.write_text(status_page(TABLES[:2], HISTORIES, KEYS, now=NOW, title="Tables of lake"), encoding="utf-8")
        with browser(Path(folder)) as tab:
            tab.open(page, width=WIDTH, scheme="light")
            PICTURE.write_bytes(tab.screenshot(width=WIDTH, height=HEIGHT))


if __name__ == "__main__":
    main()
