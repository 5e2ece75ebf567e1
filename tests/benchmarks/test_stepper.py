"""The benchmark of the stepper runs, and measures what it says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.benchmarks import stepper


def test_a_quick_run_measures_every_page(chromium, capsys):
    # Playwright is one to a thread, and other tests may hold that of this one
    with ThreadPoolExecutor(max_workers=1) as pool:
        measures = pool.submit(stepper.main, ["--quick"]).result()
    assert [each.steps for each in measures] == [20, 60]
    for each in measures:
        assert 1_000 < each.packed < 20_000
        assert each.paint > 0
        assert each.ready > 0
        assert len(each.work) == len(each.frame) == len(each.held) == 10
        assert all(work <= frame for work, frame in zip(each.work, each.frame, strict=True))
    assert capsys.readouterr().out.count("beside the script") == 2


def test_the_value_that_95_of_100_do_not_exceed():
    assert stepper.p95(tuple(float(i) for i in range(1, 101))) == 95.0
    assert stepper.p95((3.0,)) == 3.0
    assert stepper.p95(tuple(float(i) for i in range(1, 21))) == 19.0
