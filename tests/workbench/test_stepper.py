"""The stepper in a browser, from a file, with no network: what a person sees and does."""

from __future__ import annotations

import json
import math
from typing import Any

import gymnasium
import numpy as np
import pytest

from envbench import (
    EvalCase,
    Forbid,
    OutcomeCheck,
    OutcomeVerdict,
    capture_episode,
    connect,
    evaluate,
    evaluate_episode,
    no_forbidden_changes,
)
from envbench.evidence.portable import canonical, parse
from envbench.workbench.page import assets, episode_html

from .conftest import READY, View
from .worlds import scripted, warehouse

KEY = "envbench.stepper/1"


def vendors(*accounts: str | None) -> list[dict[str, Any]]:
    """States of one table, of which one cell goes through values; None is a row that is gone."""
    return [
        {
            "vendors": [
                {"vendor_id": "V-1", "account": "DE1"},
                *([] if account is None else [{"vendor_id": "V-2", "account": account}]),
            ]
        }
        for account in accounts
    ]


def shown_state(view: View) -> Any:
    """The whole state as the stepper has it, from the text of its inspector."""
    view.page.evaluate(f"() => [...globalThis['{KEY}'].apps][0].select('')")
    text = view.root.locator(".inspector pre").inner_text()
    return parse(text.encode())


def fold(view: View, wanted: bool) -> None:
    """Show only what changed, or everything."""
    if view.root.locator(".toggle").get_attribute("aria-pressed") != str(wanted).lower():
        view.press("f")


def unordered(state: Any) -> Any:
    """A state whose tables have no order."""
    if isinstance(state, dict):
        return {name: unordered(value) for name, value in state.items()}
    if isinstance(state, list) and state and all(isinstance(row, dict) for row in state):
        return sorted(map(unordered, state), key=canonical)
    return [unordered(item) for item in state] if isinstance(state, list) else state


# -- moving


def test_keys_move_through_the_episode(open_episode):
    view = open_episode(scripted([{"n": i} for i in range(26)]))
    assert view.step == 0
    assert view.press("ArrowRight").step == 1
    assert view.press("Shift+ArrowRight").step == 11
    assert view.press("ArrowLeft").step == 10
    assert view.press("Shift+ArrowLeft").step == 0
    assert view.press("ArrowLeft").step == 0
    assert view.press("End").step == 25
    assert view.press("ArrowRight").step == 25
    assert view.press("Home").step == 0


def test_keys_work_on_a_page_of_its_own_before_anything_has_the_focus(open_episode):
    view = open_episode(scripted([{"n": i} for i in range(4)]))
    assert view.page.evaluate("document.activeElement === document.body")
    view.page.keyboard.press("ArrowRight")
    assert view.step == 1
    view.app.focus()
    view.page.keyboard.press("ArrowRight")  # once, not twice
    assert view.step == 2


def test_the_element_itself_can_be_focused_for_its_keys(new_page, tmp_path):
    path = tmp_path / "two.html"
    episodes = [scripted([{"n": i} for i in range(4)]) for _ in range(2)]
    fragments = [episode_html(episode, script=False) for episode in episodes]
    path.write_text("<!DOCTYPE html>" + "".join(fragments) + assets())
    page = new_page()
    page.goto(f"file://{path}")
    page.wait_for_selector(READY)
    first, second = View(page), View(page, nth=1)
    page.keyboard.press("ArrowRight")  # of whom?
    assert (first.step, second.step) == (0, 0)
    second.root.focus()
    page.keyboard.press("End")
    assert (first.step, second.step) == (0, 3)


def test_keys_that_mean_nothing_do_nothing(open_episode):
    view = open_episode(scripted([{"n": i} for i in range(4)]))
    view.press("ArrowRight")
    view.root.locator("[role=status]", has_text="Step 1").wait_for(state="attached")
    before = view.root.locator(".app").inner_html()
    view.press("x", "d", "a", "Enter", "Delete", "Control+ArrowRight", "Alt+ArrowRight", "z")
    assert view.step == 1
    assert view.root.locator(".app").inner_html() == before


def test_space_plays_to_the_end_and_stops_there(open_episode):
    view = open_episode(scripted([{"n": i} for i in range(8)]))
    view.root.locator("select").select_option("60")
    view.press(" ")
    view.page.wait_for_selector(f'{READY}[data-step="7"]')
    assert view.root.get_by_role("button", name="Play (space)").count() == 1


def test_space_pauses(open_episode):
    view = open_episode(scripted([{"n": i} for i in range(50)]))
    view.root.locator("select").select_option("1")
    view.press(" ")
    assert view.root.get_by_role("button", name="Pause (space)").count() == 1
    view.press(" ")
    assert view.root.get_by_role("button", name="Play (space)").count() == 1
    assert view.step < 49


def test_the_number_and_the_buttons_go_to_a_step(open_episode):
    view = open_episode(scripted([{"n": i} for i in range(26)]))
    number = view.root.get_by_label("Step number")
    number.fill("17")
    number.press("Enter")
    assert view.step == 17
    number.fill("999")
    number.press("Enter")
    assert view.step == 25
    view.root.get_by_role("button", name="First (Home)").click()
    assert view.step == 0
    view.root.get_by_role("button", name="Forward (→)").click()
    assert view.step == 1


def test_a_click_on_the_timeline_goes_there(open_episode):
    view = open_episode(scripted([{"n": i} for i in range(11)]))
    track = view.root.get_by_role("slider", name="Step")
    box = track.bounding_box()
    view.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 6)
    assert view.step == 5
    assert track.get_attribute("aria-valuenow") == "5"
    assert track.get_attribute("aria-valuemax") == "10"
    view.page.keyboard.press("ArrowRight")
    assert view.step == 6


def test_the_list_of_steps_goes_there(open_episode):
    view = open_episode(scripted([{"n": i} for i in range(11)]))
    view.root.locator('.option[data-moment="4"]').click()
    assert view.step == 4
    assert view.root.locator('.option[aria-selected="true"] .n').inner_text() == "4"


def test_bars_of_a_shorter_episode_stand_at_its_steps(open_episode):
    states = [{"n": i} for i in range(7)]
    view = open_episode(scripted(states), scripted(states[:4]), width=900)
    # where the row of each side's changes is filled: the middle of each bar
    found = view.app.locator(".track canvas").evaluate(
        """canvas => {
            const { width, height } = canvas;
            const all = canvas.getContext("2d").getImageData(0, 0, width, height).data;
            const at = (x, y) => 4 * (y * width + x);
            const dark = (x, y) => all[at(x, y) + 3] > 250 && all[at(x, y)] < 128;
            const rows = [];
            for (let y = 0; y < height - 20; y++) {
                const bars = [];
                for (let x = 1; x < width; x++) {
                    if (dark(x, y) && !dark(x - 1, y)) bars.push([x, x]);
                    if (dark(x, y)) bars[bars.length - 1][1] = x;
                }
                rows.push(bars.filter(([a, b]) => b - a === 8).map(([a, b]) => (a + b) / 2));
            }
            return { width, rows };
        }"""
    )
    at = [8 + (step + 0.5) / 7 * (found["width"] - 16) for step in range(7)]
    lowest = [row for row in found["rows"] if row][-1]  # of the second episode
    assert lowest == pytest.approx(at[1:4], abs=1)
    assert any(row == pytest.approx(at[1:7], abs=1) for row in found["rows"])


def test_marks_of_one_step_do_not_lie_on_each_other(open_episode):
    def rows(*values: tuple[int, int]) -> list[Any]:
        return [{"v": [{"id": 1, "x": x}, {"id": 2, "x": y}]} for x, y in values]

    def opened(states: list[Any]) -> View:
        return open_episode(scripted(states), given={"rules": [Forbid("/v/**")]})

    def tall(view: View) -> int:
        return view.app.locator(".track canvas").evaluate("canvas => canvas.clientHeight")

    apart = rows((0, 0), (7, 0), (0, 0), (0, 7), (0, 0))
    together = rows((0, 0), (7, 0), (0, 7), (0, 0))  # put back and changed in one step
    view = opened(together)
    assert view.texts(".chip")[:2] == ["2 forbidden changes", "2 values put back"]
    drawn = view.app.locator(".track canvas").evaluate(
        """canvas => {
            const { width, height } = canvas;
            const style = getComputedStyle(canvas.parentElement);
            const g = canvas.getContext("2d");
            const x = Math.round(8 + (2.5 / 4) * (width - 16));
            const column = g.getImageData(x - 2, 0, 1, height).data;
            const rows = (name) => {
                g.fillStyle = style.getPropertyValue(name).trim();
                const [r, b] = [1, 5].map((i) => parseInt(g.fillStyle.slice(i, i + 2), 16));
                return [...Array(height).keys()].filter(
                    (y) => column[4 * y] === r && column[4 * y + 2] === b);
            };
            return { bad: rows("--eb-bad"), back: rows("--eb-back") };
        }"""
    )
    assert len(drawn["bad"]) >= 4
    assert len(drawn["back"]) >= 4
    assert max(drawn["bad"]) < min(drawn["back"])
    assert tall(view) == tall(opened(apart)) + 15


# -- the state and its changes


def test_a_change_shows_old_and_new_and_when_it_is_put_back(open_episode):
    view = open_episode(scripted(vendors("DE2", "GB9", "DE2")))
    view.press("ArrowRight")
    assert view.text(".changes .path") == '/vendors/vendor_id="V-2"/account'
    assert view.text(".changes .values") == "DE2 → GB9"
    assert view.text(".changes .notes") == "put back at step 2"
    cell = view.root.locator(".line.row .cell.edit")
    assert cell.locator(".was").inner_text() == "DE2"
    assert cell.locator(".v").last.inner_text() == "GB9"
    view.root.locator(".changes .restored").click()
    assert view.step == 2
    assert view.text(".changes .values") == "GB9 → DE2"


def test_changes_from_the_start(open_episode):
    view = open_episode(scripted(vendors("DE2", "GB9", "DE2", "FR3")))
    view.root.get_by_role("button", name="start").click()
    fold(view, True)
    view.press("End")
    assert view.rows() == [["V-2", "was DE2 → FR3"]]
    view.press("ArrowLeft")
    assert view.rows() == []
    assert "Nothing differs from the start." in view.texts(".line.note")


def test_added_and_removed_rows(open_episode):
    view = open_episode(scripted(vendors("DE2", None, "DE2")))
    view.press("ArrowRight")
    assert view.root.locator(".line.row.is-remove .was").first.inner_text() == "V-2"
    assert view.text(".changes .values").startswith("removed")
    view.press("ArrowRight")
    assert view.root.locator(".line.row.is-add .cell.key").inner_text() == "V-2"


def test_what_is_hidden_is_counted_and_can_be_shown(open_episode):
    rows = [{"id": i, "n": 0} for i in range(60)]
    after = [*rows[:-1], {"id": 59, "n": 1}]
    view = open_episode(scripted([{"a": rows, "b": {"x": 1}}, {"a": after, "b": {"x": 1}}]))
    view.press("ArrowRight")  # it does not fit into the window, so that it is folded at first
    assert view.root.locator(".toggle").get_attribute("aria-pressed") == "true"
    assert view.text(".said") == "1 section, 59 rows hidden: unchanged"
    assert len(view.rows()) == 1
    view.root.get_by_role("button", name="59 unchanged rows hidden").click()
    assert len(view.rows()) > 5
    view.press("f")
    assert view.text(".said") == ""
    assert view.root.locator(".line.section .name").count() >= 1


def test_nested_values_fold(open_episode):
    order = {"id": 1, "lines": [{"line_id": 1, "sku": "A"}, {"line_id": 2, "sku": "B"}]}
    state = {"orders": [order], "settings": {"deep": {"deeper": {"colour": "green"}}}}
    view = open_episode(scripted([state, state]))
    assert "2 rows" in view.rows()[0][1]
    assert "green" not in view.text(".lines")
    view.root.get_by_role("button", name="Open lines").click()
    assert ["1", "A"] in view.rows()
    view.root.locator(".line.section .name", has_text="deeper").click()
    assert "green" in view.text(".lines")


def test_a_table_without_a_key_is_a_multiset(open_episode):
    a, b = {"word": "a"}, {"word": "b"}
    view = open_episode(scripted([{"t": [a, a, b]}, {"t": [a, b, b]}]))
    view.press("ArrowRight")
    assert view.root.locator(".line.row.is-add").count() == 1
    assert view.root.locator(".line.row.is-remove").count() == 1
    assert shown_state(view) == {"t": [a, b, b]}


def test_a_state_that_was_not_seen_is_said(open_episode):
    states = [{"n": 1}, ValueError("locked"), {"n": 2}]
    view = open_episode(scripted(states))
    view.press("ArrowRight")
    note = "The state was not seen here. This is the one after the reset."
    assert view.texts(".line.note") == [note]
    assert "state not seen" in view.text(".notice")
    view.press("ArrowRight")
    assert shown_state(view) == {"n": 2}


def test_the_first_state_seen_is_shown_where_none_was_before(open_episode):
    view = open_episode(scripted([ValueError("early"), {"n": 1}, {"n": 2}]))
    assert view.texts(".line.note") == ["The state was not seen."]
    view.press("ArrowRight")
    assert shown_state(view) == {"n": 1}
    view.press("ArrowRight")
    assert shown_state(view) == {"n": 2}


def test_a_last_state_that_differs_is_a_moment_of_its_own(open_episode):
    def later(env):
        env.states[env.at] = {"n": 9}

    view = open_episode(scripted([{"n": 0}, {"n": 1}], after=later))
    view.press("End")
    assert view.step == 2
    assert view.text(".step h2") == "End"
    assert shown_state(view) == {"n": 9}
    assert view.text(".changes .values") == "1 → 9"


def test_an_episode_without_observer_says_so(open_episode):
    from envbench import capture_episodes

    with connect(":memory:") as store:
        env = capture_episodes(gymnasium.make("CartPole-v1"), exporter=store)
        env.reset(seed=1)
        env.step(0)
        env.close()
        (episode,) = store.episodes()
        view = open_episode(episode)
    view.press("ArrowRight")
    note = "No state was recorded: the episode had no observer."
    assert view.texts(".line.note") == [note]


@pytest.mark.parametrize("way", ["forward", "back", "jumps"])
def test_every_state_is_the_one_that_was_seen(open_episode, way):
    generate = np.random.default_rng(7)
    states: list[Any] = [
        {
            "keyed": [
                {"id": i, "n": 0, "tags": ["a"], "inner": [{"id": 1, "x": 0}]} for i in range(4)
            ],
            "loose": [{"w": "a"}, {"w": "b"}],
            "list": [1, 2, 3],
            "object": {"a": 1, "b": {"c/d": 2, "~": 3}},
            "none": None,
        }
    ]
    for step in range(40):
        state = json.loads(json.dumps(states[-1]))
        kind = int(generate.integers(9))
        row = state["keyed"][int(generate.integers(len(state["keyed"])))] if state["keyed"] else {}
        if kind == 0 and row:
            row["n"] = step
        elif kind == 1 and row:
            state["keyed"].remove(row)
        elif kind == 2:
            state["keyed"].append({"id": 100 + step, "n": 1, "tags": [], "inner": []})
        elif kind == 3:
            state["loose"].append({"w": "ab"[step % 2]})
        elif kind == 4 and state["loose"]:
            state["loose"].pop(0)
        elif kind == 5:
            state["list"] = state["list"][: step % 4] + [step] * (step % 3)
        elif kind == 6:
            state["object"]["b"]["c/d"] = step
            state["object"].pop("a", None)
        elif kind == 7 and row and row["inner"]:
            row["inner"][0]["x"] = step
            row["inner"].append({"id": 10 + step, "x": 1})
        else:
            state["none"] = [None, 1.0, 1, True, {}][step % 5]
        states.append(state)
    view = open_episode(scripted(states))
    order = {
        "forward": range(41),
        "back": range(40, -1, -1),
        "jumps": [int(i) for i in generate.permutation(41)],
    }[way]
    for step in order:
        view.page.evaluate(f"step => [...globalThis['{KEY}'].apps][0].go(step)", step)
        view.settle()
        assert unordered(shown_state(view)) == unordered(states[step]), step


# -- what stays is changed in place: it must show what is shown when it is made anew


def test_a_moment_looks_the_same_however_it_was_reached(open_episode):
    generate = np.random.default_rng(11)
    values: list[Any] = [
        1,
        2**70,
        1.0,
        math.nan,
        True,
        None,
        "short",
        "two\nlines",
        "long " * 200,
        "\u202ereversed",
        [],
        [1, 2],
        (1, 2),
        {},
        {"a": 1, "b": {"c": [1, {"d": 2}]}},
        {"a": 2, "b": {"c": [1, {"d": 3}]}},
        [{"id": 1}, {"id": 2}],
        [{"id": 2}, {"id": 1}],
        np.arange(3),
        list(range(250)),
        list(range(249, -1, -1)),
    ]

    def some() -> Any:
        return values[int(generate.integers(len(values)))]

    infos = [
        {"first": some(), "second": some()} if generate.integers(4) else {"other": some()}
        for _ in range(40)
    ]
    states: list[Any] = [{"rows": [{"id": i, "n": 0} for i in range(5)], "x": 0, "deep": {"y": 1}}]
    for step in range(40):
        state = json.loads(json.dumps(states[-1]))
        state["rows"][step % 5]["n"] = step % 3
        state["x"] = step // 2
        state["deep"] = {"y": step // 5} if step % 7 else []
        if step % 6 == 0:
            state["rows"].insert(0, state["rows"].pop())
        states.append(state)
    view = open_episode(scripted(states, infos=infos))
    different = view.page.evaluate(
        f"""async (steps) => {{
            const api = globalThis['{KEY}'];
            const [app] = api.apps;
            const scripts = document.querySelectorAll('script[type$="episode+gzip"]');
            const texts = [...scripts].map((script) => script.textContent);
            const pane = document.body.appendChild(document.createElement('div'));
            const look = (app) => ['.step', '.state .pane-head', '.state .inner'].map((part) => {{
                const element = app.root.querySelector(part);
                const bad = [...element.querySelectorAll('[hidden]')];
                const hidden = bad.map((each) => each.className).sort().join();
                return element.textContent + ' hidden: ' + hidden;
            }});
            const different = [];
            for (const step of steps) {{
                await app.go(step);
                clearTimeout(app.hashing);
                history.replaceState(null, '', '#'); // else it began where the address says
                const fresh = await api.show(pane, texts, async () => ({{}}), step);
                fresh.setFold(app.fold);
                await new Promise((done) => setTimeout(done, 50)); // its size is told
                const [a, b] = [look(app), look(fresh)];
                if (JSON.stringify(a) !== JSON.stringify(b)) different.push([step, a, b]);
            }}
            pane.remove();
            return different;
        }}""",
        [int(i) for i in generate.integers(0, 41, 80)],
    )
    assert different == []


def test_what_was_opened_stays_open_while_stepping(open_episode):
    infos = [{"nested": {"count": i, "more": {"deep": i}}} for i in range(4)]
    view = open_episode(scripted([{"x": i} for i in range(5)], infos=infos))
    view.press("ArrowRight")
    card = view.root.locator(".card", has_text="Info")
    card.locator("summary").first.click()
    card.locator(".fold summary").first.click()
    assert view.text(".fold .tree").startswith("count 0")
    view.press("ArrowRight", "ArrowRight")
    assert view.text(".fold .tree").startswith("count 2")
    view.press("Home", "ArrowRight")
    assert card.locator(".fold").first.is_visible()


def test_rows_of_the_list_stand_at_their_steps(open_episode):
    view = open_episode(scripted([{"x": i} for i in range(400)]))
    generate = np.random.default_rng(3)
    moves = [int(i) for i in generate.integers(-60, 90, 40)] + [1] * 60
    found = view.page.evaluate(
        f"""async (moves) => {{
            const [app] = globalThis['{KEY}'].apps;
            const list = app.root.querySelector('.list');
            const wrong = [];
            let most = 0;
            for (const move of moves) {{
                await app.go(app.step + move);
                await new Promise((done) => setTimeout(done, 20));
                const top = list.getBoundingClientRect().top - list.scrollTop;
                const rows = [...list.querySelectorAll('.option')];
                most = Math.max(most, rows.length);
                for (const row of rows) {{
                    const place = row.getBoundingClientRect().top - top;
                    const wanted = 24 * Number(row.dataset.moment);
                    if (Math.abs(place - wanted) > 1) wrong.push([app.step, place, wanted]);
                }}
                const here = list.querySelectorAll('[aria-selected="true"]');
                const bar = list.querySelector('.bar').getBoundingClientRect();
                const seen = here.length === 1 && here[0].getBoundingClientRect();
                if (!seen || Number(here[0].dataset.moment) !== app.step) {{
                    wrong.push([app.step, 'is not the one that is selected']);
                    continue;
                }}
                if (Math.abs(seen.top - bar.top) > 1) wrong.push([app.step, 'bar']);
                const box = list.getBoundingClientRect();
                const inside = seen.top > box.top - 1 && seen.bottom < box.bottom + 1;
                if (!inside) wrong.push([app.step, 'out of sight']);
                const first = Math.ceil(list.scrollTop / 24);
                const end = Math.min(app.last, Math.floor((list.scrollTop + box.height) / 24) - 1);
                const there = new Set(rows.map((row) => Number(row.dataset.moment)));
                for (let i = first; i <= end; i++) if (!there.has(i)) wrong.push([i, 'no row']);
            }}
            return {{ wrong, most }};
        }}""",
        moves,
    )
    assert found["wrong"] == []
    assert found["most"] < 150


# -- what is shown of values


def test_numbers_are_exact_and_types_differ(open_episode):
    state = {
        "beyond": 2**53 + 1,
        "long": 10**40,
        "whole": 1.0,
        "one": 1,
        "yes": True,
        "small": 1e-7,
        "minus": -0.0,
        "nan": math.nan,
        "inf": -math.inf,
        "text": "1",
        "empty": "",
        "null": None,
        "bytes": b"\x01\xff",
        "tuple": (1, 2),
        "array": np.array([1.5, math.nan], dtype=np.float32),
        "scalar": np.int64(3),
    }
    view = open_episode(scripted([state, state]))
    cells = {
        row.locator(".name").inner_text(): row.locator(".cell").inner_text()
        for row in view.root.locator(".line.pair").all()
    }
    assert cells == {
        "beyond": "9007199254740993",
        "long": "1" + "0" * 40,
        "whole": "1.0",
        "one": "1",
        "yes": "true",
        "small": "1e-07",
        "minus": "-0.0",
        "nan": "NaN",
        "inf": "−∞",
        "text": '"1"',
        "empty": '""',
        "null": "null",
        "bytes": "bytes 01ff",
        "tuple": "(1, 2)",
        "array": "float32 (2) [1.5, NaN]",
        "scalar": "3 int64",
    }


def test_absent_and_null_differ(open_episode):
    rows = [{"id": 1, "a": None}, {"id": 2}]
    view = open_episode(scripted([{"t": rows}, {"t": rows}]))
    assert view.rows() == [["1", "null"], ["2", "–"]]


def test_markup_in_a_state_is_text(open_episode):
    hostile = "</script><img src=x onerror=\"document.title='owned'\"><b>bold</b>"
    state = {
        hostile: hostile,
        "__proto__": {"polluted": True},
        "rows": [{"id": hostile, "<i>": hostile, "__proto__": 1}],
    }
    view = open_episode(
        scripted([state, {**state, "rows": []}], infos=[{hostile: hostile}], case_id=hostile)
    )
    for key in ("ArrowRight", "ArrowLeft"):
        view.press(key)
        assert view.page.title().startswith("</script>")
        assert view.page.locator(".envbench-stepper img, .envbench-stepper i").count() == 0
        assert hostile in view.root.locator(".lines").inner_text()
    assert view.page.evaluate("() => ({}).polluted === undefined")


def test_what_hides_or_reorders_text_is_written_out(open_episode):
    state = {"name": "user\u202egnp.exe", "zero\u200bwidth": "a\u0000b", "arabic": "سلام"}
    view = open_episode(scripted([state, state]))
    text = view.text(".lines")
    assert "userU+202Egnp.exe" in text
    assert "zeroU+200Bwidth" in text
    assert "aU+0000b" in text
    assert "سلام" in text


def test_a_long_text_is_cut_in_view_and_can_be_seen_whole(open_episode):
    text = "0123456789" * 100_000
    view = open_episode(scripted([{"log": text}, {"log": text + "!"}]))
    assert len(view.root.locator(".lines").inner_text()) < 2_000
    view.root.locator(".line.pair .cell").click()
    pre = view.root.locator(".inspector pre")
    assert len(pre.inner_text()) < 30_000
    view.root.get_by_role("button", name="show all 1,000,000 characters").click()
    assert pre.evaluate("pre => pre.textContent") == text
    assert len(view.press("ArrowRight").root.locator(".app").inner_text()) < 50_000


def test_a_large_table_shows_only_what_is_in_sight(open_episode):
    rows = [{"id": i, **{f"c{j}": f"r{i}c{j}" for j in range(59)}} for i in range(5_000)]
    after = [*rows[:-1], rows[-1] | {"c58": "new"}]
    view = open_episode(scripted([{"t": rows}, {"t": after}]))
    assert view.root.locator(".line.row").count() < 60
    assert view.root.locator(".line.row .cell").count() < 1_000
    fold(view, False)
    view.press("ArrowRight")
    view.root.locator(".lines").evaluate(
        "lines => { lines.scrollTop = 1e9; lines.scrollLeft = 1e9 }"
    )
    view.page.wait_for_function(
        "() => [...document.querySelector('.envbench-stepper').shadowRoot.querySelectorAll("
        "'.line.row .cell.edit')].some(cell => cell.textContent.endsWith('new'))"
    )
    assert view.root.locator(".line.row").count() < 60
    assert view.root.locator(".line.row .cell.key").last.inner_text() == "4999"


# -- marks, findings, verdicts


@pytest.fixture
def judged():
    """An episode in a store, of which a forbidden change was put back, and two checks failed."""

    def late(episode: Any) -> OutcomeVerdict:
        return OutcomeVerdict(False, "It was late", {"at": {"step": 3}})

    def unsure(episode: Any) -> OutcomeVerdict:
        return OutcomeVerdict(None, "Not measured", {})

    with connect(":memory:") as store:
        captured = scripted(vendors("DE2", "GB9", "DE2", "DE2", "DE2"), store=store)
        episode = store.episode(captured.episode_id)
        checks = [
            no_forbidden_changes(Forbid("/vendors/**")),
            OutcomeCheck("in_time", "v1", late),
            OutcomeCheck("measured", "v1", unsure),
        ]
        evaluate_episode(episode, checks).save(store)
        yield store, store.episode(captured.episode_id)


def test_an_episode_of_a_store_shows_what_was_saved(open_episode, judged):
    _, episode = judged
    view = open_episode(episode)
    assert view.text(".judged summary") == "Checks 2 failed, 1 unknown · 1 forbidden change"
    assert view.texts(".judged tbody .verdict") == ["failed", "unknown", "failed", "put back"]
    assert view.texts(".judged tbody .leads") == ["step 3", "step 4", "step 1", "step 1 → step 2"]


def test_a_verdict_and_a_finding_lead_to_their_step(open_episode, judged):
    view = open_episode(judged[1])
    row = view.root.locator(".judged tbody tr")
    row.filter(has_text="in_time").get_by_role("button").click()
    assert view.step == 3
    row.filter(has_text="measured").get_by_role("button").click()
    assert view.step == 4
    row.filter(has_text="put back").get_by_role("button", name="step 1").click()
    assert view.step == 1
    assert view.text(".inspector code") == '/vendors/vendor_id="V-2"/account'
    assert view.root.locator(".cell[aria-selected=true] .v").last.inner_text() == "GB9"
    row.filter(has_text="put back").get_by_role("button", name="step 2").click()
    assert view.step == 2


def test_n_and_p_visit_the_marks(open_episode, judged):
    view = open_episode(judged[1])
    assert [view.press("n").step for _ in range(4)] == [1, 2, 3, 4]
    assert view.press("n").step == 4
    assert view.text(".toast") == "No mark after this step."
    assert [view.press("p").step for _ in range(4)] == [3, 2, 1, 1]


def test_the_legend_counts_marks_and_leaves_kinds_out(open_episode, judged):
    view = open_episode(judged[1])
    assert view.texts(".chip") == [
        "1 forbidden change",
        "1 value put back",
        "3 checks not passed",
        "2 rewards",
        "2 steps changed the state",
    ]
    for chip in view.root.locator(".chip").all():
        if "forbidden" not in chip.inner_text():
            chip.click()
    assert view.press("n").step == 1
    assert view.press("n").step == 1


def test_the_timeline_has_a_text(open_episode, judged):
    view = open_episode(judged[1])
    text = view.root.locator("#marks").evaluate("p => p.textContent")
    assert text == (
        "5 moments. forbidden changes: step 1. values put back: step 2. "
        "checks not passed: step 1, 3, 4."
    )
    track = view.root.get_by_role("slider", name="Step")
    view.press("ArrowRight")
    assert track.get_attribute("aria-valuetext") == "Step 1: 0, forbidden change, check not passed"


def test_rules_given_are_applied_now(open_episode):
    episode = scripted(vendors("DE2", "GB9", "GB9"))
    view = open_episode(episode, given={"rules": [Forbid("/vendors/*/account")]})
    assert view.texts(".judged tbody .verdict") == ["kept"]
    assert view.texts(".judged tbody .leads") == ["step 1"]


def test_a_report_given_is_shown(open_episode):
    episode = scripted([{"n": 0}, {"n": 1}])

    def broken(episode: Any) -> OutcomeVerdict:
        raise KeyError("no such column")

    report = evaluate([episode], [OutcomeCheck("broken", "v1", broken)])
    view = open_episode(episode, given={"report": report})
    assert view.texts(".judged tbody .verdict") == ["check failed to run"]
    assert "no such column" in view.text(".judged tbody .why")


# -- what was done


def test_action_reward_info_and_error_of_a_step(open_episode):
    class Failing(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Dict(
            {"at": gymnasium.spaces.Discrete(9), "pair": gymnasium.spaces.MultiDiscrete([4, 4])}
        )
        action_space = gymnasium.spaces.Dict({"to": gymnasium.spaces.Text(9)})

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return {"at": 0, "pair": np.array([1, 2])}, {}

        def step(self, action: Any) -> Any:
            if action["to"] == "b":
                raise ConnectionError("the line is dead")
            return {"at": 1, "pair": np.array([3, 3])}, 0.5, False, True, {"note": "fine"}

    def interact(env: Any, observation: Any, info: Any) -> None:
        env.step({"to": "a"})

    view = open_episode(
        capture_episode(
            Failing,
            interact,
            case=EvalCase("Go", case_id="go", expects="truncation"),
            environment_id="failing",
            observer_id="none",
            observe=dict,
            seed=1,
            max_steps=3,
        )
    )
    view.press("ArrowRight")
    cards = {text.split("\n")[0]: text for text in view.root.locator(".card").all_inner_texts()}
    assert "to" in cards["Action"]
    assert "a" in cards["Action"].split()
    assert "[3, 3]" in cards["Observation"]
    assert view.text(".facts").startswith("reward 0.5 truncated")

    def fail(env: Any, observation: Any, info: Any) -> None:
        env.step({"to": "b"})

    view = open_episode(
        capture_episode(
            Failing,
            fail,
            case=EvalCase("Go", case_id="go"),
            environment_id="failing",
            observer_id="none",
            observe=dict,
            seed=1,
            max_steps=3,
        )
    )
    view.press("n")
    assert view.step == 1
    assert view.text(".failure") == "ConnectionError (step) the line is dead"
    assert view.text(".app > header .pill.failed") == "error"


def test_a_tool_call_is_shown_by_its_name(open_episode):
    class Tools(gymnasium.Space[Any]):
        def contains(self, x: Any) -> bool:
            return True

    class Desk(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = Tools()

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return 0, {}

        def step(self, action: Any) -> Any:
            return 1, 0.0, True, False, {"result": "posted"}

    def interact(env: Any, observation: Any, info: Any) -> None:
        env.step({"name": "post_invoice", "arguments": {"invoice_id": "INV-7", "amount": 12}})

    view = open_episode(
        capture_episode(
            Desk,
            interact,
            case=EvalCase("Post", case_id="post"),
            environment_id="desk",
            observer_id="none",
            observe=dict,
            seed=1,
            max_steps=3,
        )
    )
    view.press("ArrowRight")
    assert view.text(".tool-name") == "post_invoice"
    assert view.text(".call .tree").split() == ["amount", "12", "invoice_id", "INV-7"]
    what = view.root.locator('.option[data-moment="1"] .what')
    assert what.get_attribute("title") == "post_invoice(amount=12, invoice_id=INV-7)"
    assert view.text('.option[data-moment="1"] .what').startswith("post_invoice(")


# -- selecting, searching, copying


def test_a_selected_cell_shows_its_history(open_episode):
    view = open_episode(scripted(vendors("DE2", "GB9", "DE2", "FR3")))
    view.press("ArrowRight")
    view.root.locator(".line.row .cell.edit").click()
    assert view.texts(".past li") == [
        "step 1 DE2 → GB9 put back at 2",
        "step 2 GB9 → DE2",
        "step 3 DE2 → FR3",
    ]
    view.root.locator(".past").get_by_role("button", name="step 3").click()
    assert view.step == 3
    assert view.text(".inspector pre") == "FR3"
    view.press("Escape")
    assert not view.root.locator(".inspector").is_visible()


def test_search_finds_rows_paths_and_events(open_episode):
    view = open_episode(scripted(vendors("DE2", "GB9", "DE2"), infos=[{"said": "Hello"}, {}]))
    view.press("/")
    field = view.root.get_by_label("Search rows, paths and events")
    field.fill("gb9")
    results = view.root.locator(".results li")
    results.nth(1).wait_for()
    assert view.texts(".results li .soft") == ["step 1 · change", "step 2 · change"]
    field.fill("hello")
    results.filter(has_text="info").wait_for()
    assert view.texts(".results li .soft") == ["step 1 · info"]
    field.press("Enter")
    assert view.step == 1
    field.fill("v-1")
    results.filter(has_text="this state").wait_for()
    assert view.texts(".results li .soft")[0] == 'this state · /vendors/vendor_id="V-1"'
    field.press("Escape")
    assert not view.root.locator(".results").is_visible()
    assert view.press("ArrowRight").step == 2


@pytest.mark.parametrize(
    ("where", "name", "count"),
    [
        (".state .pane-head", "Copy as SQL: this state", 1),
        (".boxed:has(.changes)", "Copy as SQL", 1),
        (".boxed:has(.card)", "Copy as SQL", 1),
        (".judged", "Copy as SQL: the results of checks", 3),
        (".judged", "Copy as SQL: the findings", 1),
        (".inspector", "Copy as SQL: the history of this path", 2),
    ],
)
def test_what_is_copied_as_sql_runs_in_the_store(open_episode, judged, where, name, count):
    store, episode = judged
    view = open_episode(episode, permissions=["clipboard-read", "clipboard-write"])
    view.press("ArrowRight")
    view.root.locator(".changes .path").click()
    view.root.locator(where).first.get_by_role("button", name=name, exact=True).click()
    view.root.locator(".toast.on").wait_for()
    query = view.page.evaluate("() => navigator.clipboard.readText()")
    assert episode.episode_id in query
    assert len(store.sql(query).fetchall()) == count


def test_a_path_is_copied(open_episode):
    view = open_episode(
        scripted(vendors("DE2", "GB9")), permissions=["clipboard-read", "clipboard-write"]
    )
    view.press("ArrowRight")
    view.root.locator(".line.row .cell.edit").click()
    view.root.get_by_role("button", name="Copy the path").click()
    view.root.locator(".toast.on").wait_for()
    copied = view.page.evaluate("() => navigator.clipboard.readText()")
    assert copied == '/vendors/vendor_id="V-2"/account'


def test_the_path_of_a_row_without_a_key_is_that_of_its_change(open_episode):
    a, b = {"word": "a", "n": 1.5}, {"word": "ß", "n": 2}
    episode = scripted([{"t": [a]}, {"t": [a, b]}])
    view = open_episode(episode)
    view.press("ArrowRight")
    view.root.locator(".line.row.is-add .cell").last.click()
    (change,) = episode.changes()
    assert view.text(".inspector code").startswith(f"{change.path}/")


# -- links


def test_a_link_opens_a_step_and_the_address_follows(open_episode):
    episode = scripted([{"n": i} for i in range(9)])
    view = open_episode(episode, address=f"#{episode.episode_id}/step=6")
    assert view.step == 6
    view.press("ArrowRight")
    view.page.wait_for_function(f"() => location.hash === '#{episode.episode_id}/step=7'")
    view.page.evaluate(f"() => location.hash = '#{episode.episode_id}/step=2'")
    view.page.wait_for_selector(f'{READY}[data-step="2"]')
    view.page.evaluate("() => location.hash = '#another/step=5'")
    view.page.evaluate("() => location.hash = '#heading'")
    assert view.step == 2


def test_several_steppers_in_a_page_are_independent(new_page, tmp_path):
    episodes = [scripted([{"n": i} for i in range(9)]) for _ in range(3)]
    parts = [episode_html(episode, script=False) for episode in episodes]
    # the script in the middle: it shows what stands before it and what comes after
    body = parts[0] + assets() + parts[1] + parts[2] + assets()
    path = tmp_path / "page.html"
    path.write_text(
        f'<!DOCTYPE html><html lang="en"><title>three</title><body>{body}</body></html>'
    )
    page = new_page()
    page.goto(f"file://{path}#{episodes[1].episode_id}/step=4")
    page.wait_for_function(f"() => document.querySelectorAll('{READY}').length === 3")
    views = [View(page, path, nth) for nth in range(3)]
    assert [view.step for view in views] == [0, 4, 0]
    views[2].press("ArrowRight", "ArrowRight")
    assert [view.step for view in views] == [0, 4, 2]
    page.evaluate(f"() => location.hash = '#{episodes[0].episode_id}/step=8'")
    page.wait_for_selector(f'{READY}[data-step="8"]')
    assert [view.step for view in views] == [8, 4, 2]


# -- two episodes


def test_two_episodes_have_one_cursor(open_episode):
    first = scripted(vendors("DE2", "GB9", "DE2"), case_id="first")
    second = scripted(vendors("DE2", "DE2"), case_id="second")
    view = open_episode(first, second)
    assert view.texts("h1") == ["first", "second"]
    view.press("ArrowRight")
    assert view.texts(".step h2") == ["A · Step 1", "B · Step 1"]
    assert view.texts(".step .notice") == ["differs", "differs"]
    view.root.get_by_role("button", name="other").click()
    assert view.root.locator(".side").nth(0).locator(".cell.edit .v").all_inner_texts() == [
        "DE2",
        "GB9",
    ]
    view.press("ArrowRight")
    assert view.step == 2
    assert view.texts(".step h2") == ["A · Step 2", "B · Step 1"]
    assert "ended at step 1" in view.texts(".step .notice")[1]


# -- excerpts


def test_a_long_episode_is_an_excerpt_around_what_was_found(open_episode):
    episode = warehouse(6_000, 5)
    view = open_episode(episode, given={"limit": 30_000, "rules": [Forbid("/prices/**")]})
    assert "An excerpt: this page holds" in view.text(".banner")
    finding = view.texts(".judged tbody .leads")[-1]
    assert finding.startswith("step ")
    view.press("End")
    assert view.step == 6_000
    missing = view.page.evaluate(
        f"""() => {{
            const {{ main }} = [...globalThis['{KEY}'].apps][0];
            for (let step = 0; step <= main.last; step++) if (!main.has(step)) return step;
        }}"""
    )
    number = view.root.get_by_label("Step number")
    number.fill(str(missing))
    number.press("Enter")
    assert view.step == missing
    assert view.texts(".line.note") == [
        "This page holds only an excerpt, and not this step: the store has it."
    ]
    view.press("Home")
    assert view.root.locator(".line.row").count() > 0


# -- looks


def test_nothing_jumps_while_stepping(open_episode, judged):
    view = open_episode(judged[1])
    boxes = """app => ['header', '.judged', '.controls', '.track', '.legend', '.step', '.state',
        '.lines', '.list', 'footer'].map(name => {
            const { x, y, width, height } = app.querySelector(name).getBoundingClientRect();
            return [name, x, y, width, height];
        })"""
    first = view.app.evaluate(boxes)
    for _ in range(4):
        view.press("ArrowRight")
        assert view.app.evaluate(boxes) == first
    assert len({tuple(box) for box in first}) == 10


@pytest.mark.parametrize("width", [380, 900, 1_300])
def test_no_text_is_smaller_than_twelve_pixels(open_episode, judged, width):
    view = open_episode(judged[1], width=width)
    view.press("ArrowRight")
    view.root.locator(".changes .path").click()
    sizes = view.app.evaluate(
        """app => {
            const found = {};
            const walk = document.createTreeWalker(app, NodeFilter.SHOW_TEXT);
            while (walk.nextNode()) {
                const size = parseFloat(getComputedStyle(walk.currentNode.parentElement).fontSize);
                if (walk.currentNode.data.trim()) found[size] = walk.currentNode.data;
            }
            return found;
        }"""
    )
    assert len(sizes) >= 2
    assert min(map(float, sizes)) >= 12


@pytest.mark.parametrize("width", [340, 520, 800])
def test_a_narrow_page_does_not_scroll_sideways(open_episode, judged, width):
    view = open_episode(judged[1], width=width)
    assert view.page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert view.root.locator(".lines").bounding_box()["height"] > 60


@pytest.mark.parametrize(
    ("scheme", "host", "theme"),
    [
        ("light", "", "light"),
        ("dark", "", "dark"),
        ("light", "--jp-layout-color1: #111", "dark"),
        ("dark", "--jp-layout-color1: white", "light"),
    ],
)
def test_the_theme_is_that_of_the_page_around(new_page, tmp_path, scheme, host, theme):
    path = tmp_path / "page.html"
    path.write_text(
        f'<!DOCTYPE html><html lang="en"><style>:root{{{host}}}</style><body>'
        f"{episode_html(scripted([{'n': 0}, {'n': 1}]))}</body></html>"
    )
    page = new_page(color_scheme=scheme)
    page.goto(f"file://{path}")
    page.wait_for_selector(READY)
    app = View(page).app
    assert app.get_attribute("data-theme") == theme
    back = app.evaluate("app => getComputedStyle(app).backgroundColor")
    assert (sum(map(int, back[4:-1].split(","))) < 384) == (theme == "dark")


def test_reduced_motion_has_no_transitions(open_episode):
    view = open_episode(scripted([{"n": 0}, {"n": 1}]), reduced_motion="reduce")
    durations = view.app.evaluate(
        "app => [...app.querySelectorAll('*')].map(e => getComputedStyle(e).transitionDuration)"
    )
    assert set(durations) == {"0s"}


def test_the_page_makes_no_request(open_episode):
    view = open_episode(scripted([{"n": 0}, {"n": 1}]))
    entries = view.page.evaluate("() => performance.getEntriesByType('resource').length")
    assert entries == 0


# -- frames


@pytest.mark.parametrize(
    ("name", "mode"), [("FrozenLake-v1", "ansi"), ("CartPole-v1", "rgb_array")]
)
def test_frames_are_shown(open_episode, name, mode):
    pytest.importorskip("pygame", reason="needs pygame: pip install 'envbench[dev]'")

    def interact(env: Any, observation: Any, info: Any) -> None:
        for _ in range(3):
            _, _, terminated, truncated, _ = env.step(1)
            if terminated or truncated:
                return

    episode = capture_episode(
        lambda: gymnasium.make(name, render_mode=mode),
        interact,
        case=EvalCase("Move", case_id="move"),
        environment_id=name,
        observer_id="none",
        observe=dict,
        seed=3,
        max_steps=3,
        render=True,
    )
    view = open_episode(episode)
    view.press("ArrowRight")
    if mode == "ansi":
        view.root.locator(".frame .ansi").wait_for()
        lines = view.root.locator(".frame .ansi").inner_text().split("\n")
        assert "SFFF" in [line.strip() for line in lines]
        assert view.root.locator(".frame .bg1").inner_text() in "SFHG"
        assert "\x1b" not in view.root.locator(".frame").inner_text()
    else:
        view.root.locator(".frame img").wait_for()
        size = view.root.locator(".frame img").evaluate("i => [i.naturalWidth, i.naturalHeight]")
        assert size == [600, 400]
