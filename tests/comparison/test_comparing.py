"""The arguments of `compare` and `compare_many`, names, and several versions at once."""

from __future__ import annotations

from typing import Any

import pytest

from envbench import connect
from envbench.comparison import Comparison, Comparisons, Episodes, compare, compare_many
from tests.comparison.tills import OFTEN, ONCE, record


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"treatment": "seed"}, "treatment must be one of environment, agent, checks, not 'seed'"),
        ({"attempt": "best"}, "attempt must be one of first, last, not 'best'"),
        ({"alpha": 0.0}, "alpha must be a number between 0 and 1, not 0.0"),
        ({"alpha": 1}, "alpha must be a number between 0 and 1, not 1"),
        ({"alpha": True}, "alpha must be"),
        ({"alpha": float("nan")}, "alpha must be"),
        ({"names": ("a", "a")}, "names must be two different names"),
        ({"names": "ab"}, "names must be two different names"),
        ({"names": ("a", " ")}, "names must not be blank"),
        ({"treatment": "checks", "checks": ONCE}, r"a pair \(old, new\)"),
        ({"treatment": "checks", "checks": (ONCE, None)}, r"a pair \(old, new\)"),
    ],
)
def test_arguments_that_do_not_fit(report: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(report("p"), report("p", side="b"), **arguments)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("ledger-v1", r"such as Episodes\(environment_id='ledger-v1'\), not str"),
        ([1], "baseline must be a Report, a Store or Episodes"),
        (None, "not NoneType"),
    ],
)
def test_a_side_that_is_none(report: Any, given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        compare(given, report("p"))


def test_a_selection_needs_a_store(report: Any) -> None:
    with pytest.raises(ValueError, match="candidate: Episodes are selected from a store"):
        compare(report("p"), Episodes(run_id="x"))


def test_versions_of_a_check_have_one_name() -> None:
    with connect(":memory:") as store:
        record(store=store)
        other = type(ONCE)("posted", "v1", ONCE.fn)
        with pytest.raises(ValueError, match="are called 'booked' and 'posted'"):
            compare(store, store, treatment="checks", checks=(ONCE, other))
        comparison = compare(store, store, treatment="checks", checks=([ONCE], [OFTEN, other]))
        booked, posted = comparison.checks
        assert (booked.total, posted.baseline_version) == (1, None)


def test_a_comparison_has_no_truth_value(report: Any) -> None:
    with pytest.raises(TypeError, match="no truth value"):
        bool(compare(report("p"), report("p")))
    with pytest.raises(TypeError, match="no truth value"):
        bool(compare_many(report("p"), [report("p")]))


def test_a_check_is_found_by_name(report: Any) -> None:
    comparison = compare(report("p"), report("p"))
    assert comparison.check("posted_once") is comparison.checks[0]
    with pytest.raises(KeyError, match="no check 'posted': there are posted_once"):
        comparison.check("posted")


# -- names ----------------------------------------------------------------------------------------


def names(baseline: Any, candidate: Any, **options: Any) -> tuple[str, str]:
    comparison = compare(baseline, candidate, **options)
    return comparison.baseline_name, comparison.candidate_name


def test_the_sides_are_called_by_what_tells_them_apart(report: Any) -> None:
    same = report("p")
    assert names(same, report("p", side="b", environment_id="v2")) == ("counter-v1", "v2")
    one, two = (report("p", side=n, environment_version=n) for n in "ab")
    assert names(one, two) == ("version a", "version b")
    robots = [report("p", side=n, agent_id=f"robot {n}") for n in "ab"]
    assert names(*robots, treatment="agent") == ("robot a", "robot b")
    assert names(same, report("p", side="b", name="after")) == ("outcomes", "after")
    assert names(same, same) == ("baseline", "candidate")
    assert names(same, same, names=("before", "after")) == ("before", "after")


# -- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "setting", "code"),
    [
        ("pppppppp", "ffffffff", {}, 1),
        ("ffffffff", "pppppppp", {}, 0),
        ("ppppffff", "ppppffff", {}, 0),
        ("ppppffff", "ppppfffu", {}, 0),  # it can only have been fixed
        ("ppppfffp", "ppppffuu", {}, 2),  # broke or fixed
        ("pppppppp", "ffffffff", {"max_steps": 4}, 2),
        ("", "", {}, 2),
        ("uuuu", "uuuu", {}, 2),
    ],
)
def test_exit_codes(report: Any, before: str, after: str, setting: Any, code: int) -> None:
    assert compare(report(before), report(after, side="b", **setting)).exit_code == code


def test_a_regression_shown_outweighs_what_is_open(report: Any) -> None:
    checks = {"sure": "v1", "open": "v1"}
    baseline = report([(f"c{i}", "pu") for i in range(8)], checks=checks)
    candidate = report([(f"c{i}", "fu") for i in range(8)], checks=checks, side="b")
    comparison = compare(baseline, candidate)
    assert [check.verdict for check in comparison.checks] == ["regression", "indeterminate"]
    assert comparison.exit_code == 1


# -- several versions -----------------------------------------------------------------------------


@pytest.fixture
def three(report: Any) -> tuple[Any, Any, Any]:
    """A baseline, a version in which 8 of 8 broke, and one in which 7 of 8 did."""
    return (
        report("pppppppp", environment_id="v1"),
        report("ffffffff", environment_id="v2", side="b"),
        report("pfffffff", environment_id="v3", side="c"),
    )


def test_each_version_is_compared_with_the_baseline(three: Any) -> None:
    first, *others = three
    many = compare_many(first, others)
    assert [c.candidate_name for c in many] == ["v2", "v3"]
    assert (many.baseline_name, len(many), many[1].checks[0].broke) == (
        "v1",
        2,
        tuple(f"case-0{n}" for n in range(2, 9)),
    )


def test_holm_is_over_all_versions(three: Any) -> None:
    many = compare_many(three[0], three[1:])
    found = [comparison.checks[0].p_adjusted for comparison in many]
    assert found == [2 * 2 / 2**8, 2 / 2**7]
    alone = compare(three[0], three[2]).checks[0]
    assert alone.p == alone.p_adjusted == 2 / 2**7
    effects = [many[1].checks[0].smallest_effect, alone.smallest_effect]
    assert effects[0] is None or (effects[1] is not None and effects[0] > effects[1])


def test_the_exit_code_of_many_is_the_worst(report: Any, three: Any) -> None:
    same = report("pppppppp", environment_id="v4", side="d")
    other = report("pppppppp", environment_id="v5", agent_id="robot", side="e")
    assert compare_many(three[0], [same]).exit_code == 0
    assert compare_many(three[0], [same, other]).exit_code == 2
    assert compare_many(three[0], [same, other, three[1]]).exit_code == 1


def test_names_of_many_are_given_or_made_distinct(report: Any, three: Any) -> None:
    many = compare_many(three[0], {"two": three[1], "three": three[2]}, baseline_name="one")
    assert [(c.baseline_name, c.candidate_name) for c in many] == [("one", "two"), ("one", "three")]
    twins = compare_many(three[0], [three[1], report("pppppppp", environment_id="v2", side="x")])
    assert [c.candidate_name for c in twins] == ["v2", "v2 (2)"]


def test_many_of_one_store() -> None:
    with connect(":memory:") as store:
        for version in (1, 2, 3):
            record(store=store, booked=version, environment=f"till-v{version}")
        sides = [Episodes(environment_id=f"till-v{version}") for version in (1, 2, 3)]
        many = compare_many(sides[0], sides[1:], store=store, checks=ONCE)
        assert [c.checks[0].broke for c in many] == [("x",), ("x",)]
        assert many.frame()["candidate"].to_list() == ["till-v2", "till-v3"]


def test_many_in_text_and_back(three: Any, tmp_path: Any) -> None:
    many = compare_many(three[0], three[1:])
    assert str(many) == f"{many[0]}\n\n{many[1]}"
    assert many.summary().count("\n\n") == 1
    assert Comparisons.from_dict(many.to_dict()) == many
    many.save_json(tmp_path / "many.json")
    assert Comparisons.load_json(tmp_path / "many.json") == many
    altered = many.to_dict()
    altered["comparisons"][1]["alpha"] = 0.5
    with pytest.raises(ValueError, match=r"/comparisons/1/digest: .* altered"):
        Comparisons.from_dict(altered)
    with pytest.raises(ValueError, match="/comparisons: is empty"):
        Comparisons.from_dict(altered | {"comparisons": []})


@pytest.mark.parametrize(
    ("candidates", "kind", "message"),
    [
        ([], ValueError, "candidates must hold at least one selection"),
        ("v2", TypeError, "candidates must be a list of selections"),
        ({" ": None}, ValueError, "candidates must not be blank"),
    ],
)
def test_candidates_that_are_none(report: Any, candidates: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        compare_many(report("p"), candidates)


def test_one_candidate_is_a_list_of_one(report: Any) -> None:
    with pytest.raises(TypeError, match="not Report"):
        compare_many(report("p"), report("p"))


def test_versions_of_checks_for_many_are_reports(report: Any) -> None:
    rows = [{"case": "x", "letters": "p", "digest": "one"}]
    versions = [report(rows, checks={"posted": f"v{number}"}) for number in (1, 2, 3)]
    many = compare_many(versions[0], versions[1:], treatment="checks")
    assert [c.candidate_name for c in many] == ["posted v2", "posted v3"]
    with pytest.raises(ValueError, match="takes no checks with treatment='checks'"):
        compare_many(versions[0], versions[1:], treatment="checks", checks=ONCE)


def test_the_outcomes_must_be_those_of_the_pairs(report: Any) -> None:
    comparison = compare(report("pp"), report("pp"))
    with pytest.raises(ValueError, match="/checks/0/outcomes: 2 are there, and there are 1 pairs"):
        Comparison(
            **{
                name: getattr(comparison, name)
                for name in Comparison.__dataclass_fields__
                if name != "pairs"
            },
            pairs=comparison.pairs[:1],
        )
