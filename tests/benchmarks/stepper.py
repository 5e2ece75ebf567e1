"""What the stepper costs: the size of a page, its first paint, and a key press.

    python tests/benchmarks/stepper.py [--quick]

Pages are opened in Chromium from files, with no network. A key press is measured three times: the
work until the moment is in the page (`work`); the time until the frame that shows it was painted,
of keys that come at any time within a frame of 16.6 ms (`frame`), most of which is the wait for its
end; and the same of keys that follow each other frame by frame, as a held key does (`held`): it is
16.6 ms where a press fits in one frame. Beside it stand a fixed loop of JavaScript and, first, the
least that a page can do: one that changes a single text at each key. A machine that is busy slows
all of them.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbench.workbench.page import assets, episode_page
from envbench.workbench.payload import payloads
from tests.workbench.conftest import OPTIONS, READY
from tests.workbench.worlds import warehouse


@dataclass(frozen=True)
class Measure:
    """What one page costs.

    Attributes:
        steps: steps of its episode.
        rows: rows of the state.
        packed: characters of the packed episode, which is all of the page beside the script.
        script: characters of the script and the style.
        making: seconds to make the page from evidence in memory.
        paint: milliseconds until the browser painted first.
        ready: milliseconds until the first moment was shown.
        work: milliseconds of each key press until the moment is in the page.
        frame: milliseconds of each key press until its frame was painted.
        held: the same, of keys each of which follows the frame of the one before.
        loop: milliseconds of a fixed loop of JavaScript.
    """

    steps: int
    rows: int
    packed: int
    script: int
    making: float
    paint: float
    ready: float
    work: tuple[float, ...]
    frame: tuple[float, ...]
    held: tuple[float, ...]
    loop: float


PRESS = """async (presses) => {
    const root = document.querySelector('.envbench-stepper');
    const app = root.shadowRoot.querySelector('.app');
    app.focus();
    const painted = () => new Promise((done) => requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = done;
        channel.port2.postMessage(0);  // handled after the frame was painted
    }));
    const press = (i) => {
        const key = i % 10 === 9 ? 'ArrowLeft' : 'ArrowRight';
        app.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, composed: true }));
    };
    const work = [], frame = [], held = [];
    for (let i = 0; i < presses; i++) {
        await new Promise((done) => setTimeout(done, 20 + (i * 7) % 17));
        const started = performance.now();
        press(i);
        work.push(performance.now() - started);
        await painted();
        frame.push(performance.now() - started);
    }
    await painted();
    for (let i = 0; i < presses; i++) {
        const started = performance.now();
        press(i);
        await painted();
        held.push(performance.now() - started);
    }
    let started = performance.now();
    let total = 0;
    for (let i = 0; i < 1e6; i++) total += Math.sqrt(i);
    return { work, frame, held, loop: performance.now() - started, total };
}"""


LEAST = """<!doctype html><div class="envbench-stepper"></div><script>
const shadow = document.querySelector('.envbench-stepper').attachShadow({ mode: 'open' });
shadow.innerHTML = '<div class="app" tabindex="0"><p>0</p></div>';
let step = 0;
shadow.querySelector('.app').addEventListener('keydown', () => {
    shadow.querySelector('p').textContent = String(++step);
});
</script>"""


def least(browser: Any, presses: int) -> dict[str, Any]:
    """What a key press takes in a page that does nearly nothing."""
    page = browser.new_page(viewport={"width": 1180, "height": 800})
    page.set_content(LEAST)
    pressed: dict[str, Any] = page.evaluate(PRESS, presses)
    page.close()
    return pressed


def measure(browser: Any, folder: Path, steps: int, rows: int, presses: int) -> Measure:
    """Measure the page of one episode of the warehouse."""
    episode = warehouse(steps, rows)
    (payload,) = payloads(episode)
    started = time.perf_counter()
    html = episode_page(episode)
    making = time.perf_counter() - started
    path = folder / f"{steps}.html"
    path.write_text(html)
    page = browser.new_page(viewport={"width": 1180, "height": 800})
    page.goto(f"file://{path}")
    page.wait_for_selector(READY, timeout=120_000)
    paint, ready = page.evaluate(
        """() => [performance.getEntriesByName('first-contentful-paint')[0].startTime,
            performance.now()]"""
    )
    pressed = page.evaluate(PRESS, presses)
    page.close()
    return Measure(
        steps,
        rows,
        len(payload.text),
        len(assets()),
        making,
        paint,
        ready,
        tuple(pressed["work"]),
        tuple(pressed["frame"]),
        tuple(pressed["held"]),
        pressed["loop"],
    )


def p95(values: Sequence[float]) -> float:
    """The value that 95 of 100 do not exceed."""
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


def _figures(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} {p95(values):.1f}"


def main(arguments: list[str] | None = None) -> list[Measure]:
    """Run and print a table."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short episodes, to see that it runs")
    quick = parser.parse_args(arguments).quick
    plan = [(20, 5), (60, 5)] if quick else [(1_000, 50), (100_000, 50)]
    chromium = next(
        found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))
    )
    measures = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        presses = 10 if quick else 200
        told = least(browser, presses)
        print(
            "the least a page can do: a key, median and p95 in ms:"
            f" frame {_figures(told['frame'])}, held {_figures(told['held'])}"
        )
        for steps, rows in plan:
            found = measure(browser, Path(folder), steps, rows, presses)
            measures.append(found)
            print(
                f"{steps:,} steps, {rows} rows: {found.packed / 1e3:,.0f} kB beside the script"
                f" ({found.script / 1e3:,.0f} kB), made in {found.making:.2f} s\n"
                f"  first paint {found.paint:.0f} ms, first moment {found.ready:.0f} ms\n"
                f"  a key, median and p95 in ms: work {_figures(found.work)}, frame"
                f" {_figures(found.frame)}, held {_figures(found.held)}; a loop of a million"
                f" {found.loop:.1f} ms"
            )
        browser.close()
    return measures


if __name__ == "__main__":
    main()
