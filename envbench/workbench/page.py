"""Episodes as HTML: a stepper that needs no kernel and no network, and a table without scripts.

A fragment holds the packed episode, what can be read where scripts do not run, and the script. It
is what a notebook shows for an episode, what stands in an exported page, and what a live view
leaves in a saved notebook.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from envbench.evidence.portable import Json, canonical
from envbench.evidence.tagged import TAG
from envbench.workbench.markup import attribute, counted, fragment, pill, table, text
from envbench.workbench.payload import LIMIT, Payload, pack, payloads, unpack

if TYPE_CHECKING:
    from envbench.changes.rules import Rule
    from envbench.checks.report import Report
    from envbench.evidence.episode import EpisodeEvidence

MIME = "application/vnd.envbench.episode+gzip"
"""The type of a `<script>` element that holds a packed episode."""

LISTED = 50
"""Rows of a table without scripts."""


def episode_html(
    episode: EpisodeEvidence,
    other: EpisodeEvidence | None = None,
    *,
    rules: Iterable[Rule] = (),
    report: Report | None = None,
    limit: int = LIMIT,
    script: bool = True,
) -> str:
    """An episode as an HTML fragment that steps through it; two are shown side by side.

    An episode that was read from a store shows its saved findings and the latest result of each
    check without being told.

    Args:
        episode: the episode.
        other: one to show beside it, aligned by step.
        rules: rules on changes, applied now.
        report: results to show instead of those in the store.
        limit: characters that the episodes may take in the fragment; of longer ones it holds an
            excerpt around what was found, and says so.
        script: whether the fragment brings the script and style that every stepper of a page
            shares; a page with many can have them once, by `assets`.

    Raises:
        TypeError: when an argument is of another type.
        ValueError: when the report has no result of the episode, or the limit is not positive.
    """
    found = payloads(episode, other, rules=rules, report=report, limit=limit)
    return fragment_of(found, script=script)


def episode_page(
    episode: EpisodeEvidence,
    other: EpisodeEvidence | None = None,
    *,
    rules: Iterable[Rule] = (),
    report: Report | None = None,
    limit: int = LIMIT,
) -> str:
    """An episode as a whole HTML document; see `episode_html` for the arguments.

    It makes no request, and its address names the step: ``page.html#EPISODE_ID/step=12``.
    """
    found = payloads(episode, other, rules=rules, report=report, limit=limit)
    title = " and ".join(dict.fromkeys(each.episode.case.case_id for each in found))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)} · envbench</title>{_POLICY}"
        "<style>html{color-scheme:light dark}body{margin:0}</style></head>"
        f"<body><main>{fragment_of(found, page=True)}</main></body></html>\n"
    )


def fragment_of(
    found: Sequence[Payload], *, script: bool = True, page: bool = False, view: str | None = None
) -> str:
    """The fragment of payloads: one episode, or two side by side.

    Args:
        found: the payloads.
        script: whether it brings `assets`.
        page: whether it is all of a page: then it fills the window, and its address names the step.
        view: the identity of a live view that binds to it.
    """
    texts = [each.text for each in found]
    return _fragment(texts, [unpack(text) for text in texts], script=script, page=page, view=view)


def assets() -> str:
    """The script and the style that all steppers of a page share, as HTML elements.

    Both are the very text of a file in `static/`. A page may have them more than once.
    """
    return (
        f'<style data-envbench-stepper media="not all">{style_text()}</style>'
        f"<script>{script_text()}</script>"
    )


@cache
def script_text() -> str:
    """The text of `static/stepper.js`."""
    return _static("stepper.js")


@cache
def style_text() -> str:
    """The text of `static/stepper.css`."""
    return _static("stepper.css")


def static_html(contents: Sequence[dict[str, Json]]) -> str:
    """What is shown of unpacked payloads where scripts do not run: who, verdicts and findings."""
    return fragment(*(part for content in contents for part in _static_parts(content["head"])))


def read(html: str) -> list[list[dict[str, Json]]]:
    """The episodes in some HTML, unpacked; a list for each stepper in it, in order.

    Raises:
        ValueError: when a packed episode cannot be read.
    """
    return [
        [unpack(found[1]) for found in _PACKED.finditer(stepper[0])]
        for stepper in _STEPPER.finditer(html)
    ]


def rewrite(html: str, change: Callable[[dict[str, Json]], dict[str, Json]]) -> str:
    """The same HTML with every episode in it changed, and what is shown without scripts with it.

    Args:
        html: HTML that may hold steppers.
        change: gets an unpacked episode (see `payload.unpack`) and returns what shall be there; it
            may alter its argument.

    Raises:
        ValueError: when a packed episode cannot be read.
    """

    def rewritten(stepper: re.Match[str]) -> str:
        contents = [change(unpack(found[1])) for found in _PACKED.finditer(stepper[0])]
        attributes = stepper["attributes"]
        return _element(attributes, [pack(content) for content in contents], contents)

    return _STEPPER.sub(rewritten, html)


# Nothing that is packed or shown without scripts can hold this end: it is base64, or escaped.
_END = '<span data-envbench-end hidden=""></span></div>'
_STEPPER = re.compile(
    r'<div class="envbench-stepper"(?P<attributes>[^>]*)>.*?' + re.escape(_END), re.DOTALL
)
_PACKED = re.compile(rf'<script type="{re.escape(MIME)}">([^<]*)</script>')

# A page asks nobody for anything: no request leaves it, whatever stands in an episode.
_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">"
)


def _fragment(
    texts: Sequence[str],
    contents: Sequence[dict[str, Json]],
    *,
    script: bool,
    page: bool,
    view: str | None,
) -> str:
    attributes = ' data-lm-suppress-shortcuts="true" data-step="0"'
    attributes += f' data-episode="{attribute(contents[0]["head"]["episode"]["episode_id"])}"'
    attributes += ' data-page=""' if page else ""
    attributes += f' data-view="{attribute(view)}"' if view else ""
    return _element(attributes, texts, contents) + (assets() if script else "")


def _element(attributes: str, texts: Iterable[str], contents: Sequence[dict[str, Json]]) -> str:
    packed = "".join(f'<script type="{MIME}">{text}</script>' for text in texts)
    return (
        f'<div class="envbench-stepper"{attributes}>'
        f"<div data-envbench-static>{static_html(contents)}</div>{packed}{_END}"
    )


def _static_parts(head: dict[str, Any]) -> Iterator[str]:
    about = head["episode"]
    provenance = about["provenance"]
    where = " · ".join(
        text(part) for part in (about["environment_id"], provenance["agent_id"]) if part is not None
    )
    steps = counted(about["totals"]["steps"], "step")
    heading = '<p class="envbench-title" role="heading" aria-level="1">'
    yield f"{heading}{text(about['case_id'])}</p>"
    yield (
        f"<p>{where} · {text(about['ending'])} after {steps}, return "
        f"{text(_shown(about['totals']['reward']))}. "
        '<span class="envbench-soft">Stepping through the states needs scripts: they do not run '
        "here, or this notebook is not trusted.</span></p>"
    )
    if head.get("redacted"):
        number = counted(int(head["redacted"].get("values", 0)), "value")
        yield f"<p>Redacted: {number}. The digest is that of the evidence before.</p>"
    if head["checks"]:
        yield table(
            ("Check", "Verdict", "Reason", "Step"),
            [_check_row(check, head) for check in head["checks"][:LISTED]],
            caption="Checks",
        )
    if head["findings"]:
        yield table(
            ("Step", "Path", "Values", "Put back", "Rule"),
            [_finding_row(finding) for finding in head["findings"][:LISTED]],
            numbers=(0,),
            caption="Forbidden changes",
        )
    left = head["n_findings"] - len(head["findings"][:LISTED])
    if left > 0:
        yield f"<p>And {counted(left, 'more finding')}: the table <code>findings</code>.</p>"
    if about["coverage_issues"]:
        items = "".join(f"<li>{text(_shown(issue))}</li>" for issue in about["coverage_issues"])
        yield f"<p>Not covered by the evidence:</p><ul>{items}</ul>"


def _check_row(check: dict[str, Any], head: dict[str, Any]) -> tuple[str, ...]:
    word = {True: "passed", False: "failed", None: "unknown"}[check["passed"]]
    verdict = pill("error") if check["error"] is not None else pill(word)
    steps = check["steps"] or ([] if check["passed"] else [head["n_moments"] - 1])
    listed = ", ".join(map(str, steps[:5])) + (", …" if len(steps) > 5 else "")
    why = check["reason"] if check["error"] is None else check["error"]
    return text(check["name"]), verdict, text(_cut(str(why), 400)), listed


def _finding_row(finding: dict[str, Any]) -> tuple[str, ...]:
    before = "absent" if "before" not in finding else _shown(finding["before"])
    during = finding.get("during")
    later = [_shown(value) for value in during[:3]] if isinstance(during, list) else []
    if finding["kind"] == "inside_step":
        back = "inside the step"
    elif finding["restored_at"] is not None:
        back = f"step {finding['restored_at']}"
    else:
        back = "never"
    return (
        text(finding["step_index"]),
        f'<span class="envbench-value">{text(finding["path"])}</span>',
        f'<span class="envbench-value">{text(" → ".join([before, *later]))}</span>',
        text(back),
        f'<span class="envbench-value">{text(finding["rule"])}</span>',
    )


def _shown(value: Json) -> str:
    """A value in a cell: text as it is, all else as JSON."""
    if isinstance(value, str):
        return _cut(value, 200)
    if isinstance(value, dict) and value.get(TAG) == "absent":
        return "absent"
    if isinstance(value, dict) and value.get(TAG) == "float":
        return str(value["value"])
    return _cut(canonical(value).decode(), 200)


def _cut(shown: str, length: int) -> str:
    return shown if len(shown) <= length else f"{shown[:length]}… ({len(shown):,} characters)"


def _static(name: str) -> str:
    return resources.files("envbench.workbench").joinpath(f"static/{name}").read_text("utf-8")
