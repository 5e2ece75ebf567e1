"""Values and paths taken out of packed episodes and HTML, which still step and still read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envbench import connect
from envbench.checks import evaluate
from envbench.evidence.portable import canonical
from envbench.workbench import page, payload
from envbench.workbench.html_tokens import html_of, tokens
from envbench.workbench.payload_redaction import redact_payload, shown_of, values_at
from envbench.workbench.redaction import Redactions, Redactor
from tests.workbench.conftest import READY, View
from tests.workbench.customers import FORBIDDEN, IBAN, MAIL, PIN, record


@pytest.fixture(scope="module")
def packed() -> str:
    with connect(":memory:") as store:
        episode = store.episode(record(store).episode_id)
        report = evaluate([episode], [FORBIDDEN])
        return payload.payloads(episode, report=report)[0].text


class Redacting:
    """An episode after redaction, with what was counted."""

    def __init__(self, packed: str, paths: tuple[str, ...], values: tuple[str, ...]) -> None:
        self.redactor = Redactor(Redactions(paths, values))
        self.redactor.also(values_at(payload.unpack(packed), paths))
        self.content = redact_payload(payload.unpack(packed), self.redactor)

    @property
    def shown(self) -> str:
        return canonical(shown_of(self.content)).decode()

    @property
    def state(self) -> Any:
        return self.content["chunks"][0]["state"]

    @property
    def changes(self) -> list[list[Any]]:
        """Path, before and after of each change."""
        return [[row[2], *row[4:6]] for row in self.content["chunks"][0]["changes"]]

    @property
    def column(self) -> dict[str, Any]:
        return self.content["chunks"][0]

    def total(self, name: str) -> int:
        return self.redactor.total(name)


@pytest.fixture
def redact(packed: str) -> Any:
    def redact(*paths: str, values: tuple[str, ...] = ()) -> Redacting:
        return Redacting(packed, paths, values)

    return redact


class TestValues:
    def test_a_value_is_nowhere_in_an_episode(self, redact):
        found = redact(values=(MAIL,))
        assert "oneill" not in found.shown.lower()
        customers = found.state["customers"]
        assert [row["mail"] for row in customers] == ["[redacted]", "b@example.org"]
        assert [row["customer_id"] for row in customers] == ["C-1", "C-2"]
        assert found.state["notes"][0] == {"text": "call [redacted]"}
        assert found.content["head"]["episode"]["case"]["input"] == "Write to [redacted]."
        assert found.content["head"]["episode"]["output"] == "I wrote to [redacted]."
        assert {each["mail"] for each in found.column["info"]} == {"[redacted]"}
        assert {each["mail"][0] for each in found.column["observation"]} == {"[redacted]"}

    def test_a_name_that_holds_it_is_another_name_everywhere(self, redact):
        found = redact(values=(MAIL,))
        assert found.state["by_mail"] == {
            "[redacted]": {"logins": 3},
            "b@example.org": {"logins": 0},
        }
        assert ["/by_mail/x+[redacted]", None, {"logins": 1}] in found.changes

    def test_bytes_that_hold_it_go(self, redact):
        assert redact(values=(MAIL,)).state["raw"] == "[redacted]"

    def test_a_number_goes_from_every_form_that_has_it(self, redact):
        found = redact(values=("1234.5",))
        assert "1234.5" not in found.shown
        assert found.state["balance"] == "[redacted]"
        assert found.state["exact"] == "[redacted]"
        assert found.state["history"] == "[redacted]"
        assert found.column["reward"] == [None, 0.0, 0.0, 0.0, None]
        assert found.column["observation"][0]["balance"] == [["[redacted]"]]
        assert "reward" not in found.content["head"]["timeline"]

    def test_a_row_that_is_named_by_its_digest_gets_another_name(self, packed, redact):
        before = [path for path, *_ in Redacting(packed, (), ("nowhere",)).changes if "#" in path]
        after = [path for path, *_ in redact(values=(MAIL,)).changes if "#" in path]
        assert len(before) == len(after) == 2
        assert not set(before) & set(after)

    def test_keys_of_rows_are_told_apart(self, redact):
        found = redact(values=("C-1", "C-2", "C-3"))
        first, second = (row["customer_id"] for row in found.state["customers"])
        third = found.changes[3][2]["customer_id"]
        assert {first, second, third} == {"[redacted]", "[redacted] 2", "[redacted] 3"}
        paths = [path for path, *_ in found.changes if path.startswith("/customers")]
        assert paths == [
            f'/customers/customer_id="{first}"/iban',
            f'/customers/customer_id="{first}"/iban',
            f'/customers/customer_id="{third}"',
        ]

    def test_what_is_not_there_is_counted_as_none(self, redact):
        found = redact(values=("nowhere at all",))
        assert found.total("value 1") == 0
        assert "redacted" not in found.content["head"]

    def test_an_episode_says_that_it_is_redacted(self, redact):
        found = redact(values=(MAIL,))
        assert found.content["head"]["redacted"] == {"paths": 0, "values": found.total("value 1")}
        assert found.total("value 1") > 20


class TestPaths:
    def test_a_path_covers_states_changes_infos_and_findings(self, redact):
        found = redact("/customers/*/iban")
        assert [row["iban"] for row in found.state["customers"]] == ["[redacted]"] * 2
        assert found.changes[0] == [
            '/customers/customer_id="C-1"/iban',
            "[redacted]",
            "[redacted]",
        ]
        (finding, added) = found.content["head"]["findings"]
        assert finding["before"] == finding["after"] == "[redacted]"
        assert finding["during"] == ["[redacted]"]
        assert added["after"]["iban"] == "[redacted]"
        assert added["after"]["mail"] == MAIL.upper()
        assert IBAN not in found.shown
        assert "GB82WEST12345698765432" not in found.shown

    def test_a_value_too_short_to_be_looked_for_still_goes_from_its_path(self, redact):
        found = redact("/customers/*/pin", "/pin")
        assert PIN not in json.dumps(found.state)
        assert found.column["info"][0] == {"mail": MAIL, "pin": "[redacted]"}
        assert found.changes[3][2]["pin"] == "[redacted]"
        assert found.total("path /pin") == 1
        assert found.redactor.finder.secrets == []

    def test_what_stood_there_is_looked_for_elsewhere(self, redact):
        found = redact("/customers/*/mail")
        assert "oneill" not in found.shown.lower()
        assert found.total("path /customers/*/mail") > 0
        assert found.total("found") > 0

    def test_the_key_of_a_row_becomes_a_number_everywhere(self, redact):
        found = redact("/customers/*/customer_id")
        assert [row["customer_id"] for row in found.state["customers"]] == [
            "[redacted 1]",
            "[redacted 2]",
        ]
        assert found.changes[0][0] == '/customers/customer_id="[redacted 1]"/iban'
        path, _, row = found.changes[3]
        assert path == '/customers/customer_id="[redacted 3]"'
        assert row["customer_id"] == "[redacted 3]"

    def test_one_row_by_its_key(self, redact):
        found = redact('/customers/customer_id="C-2"/iban')
        assert [row["iban"] for row in found.state["customers"]] == [IBAN, "[redacted]"]

    def test_of_a_table_that_goes_whole_only_that_it_changed_is_left(self, redact):
        found = redact("/customers")
        assert found.state["customers"] == "[redacted]"
        assert [row for row in found.changes if row[0].startswith("/customers")] == [
            ["/customers", "[redacted]", "[redacted]"]
        ] * 3
        assert {each["path"] for each in found.content["head"]["findings"]} == {"/customers"}
        assert found.content["head"]["checks"][0]["reason"] == "[redacted]"

    def test_everything(self, redact):
        found = redact("/**")
        assert set(found.state.values()) == {"[redacted]"}
        assert set(found.column["info"]) == {"[redacted]"}
        assert set(found.column["observation"]) == {"[redacted]"}
        for text in (MAIL, IBAN, "1234.5", "nothing"):
            assert text not in found.shown

    def test_equal_rows_without_a_key_stay_equal_and_others_apart(self, redact):
        found = redact("/notes/*/text")
        assert found.state["notes"] == [
            {"text": "[redacted 1]"},
            {"text": "[redacted 2]"},
            {"text": "[redacted 2]"},
        ]

    def test_a_path_that_is_not_there_counts_as_none(self, redact):
        assert redact("/customers/*/phone").total("path /customers/*/phone") == 0

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("customers", "must start with '/'"),
            ("/a~b", "'~' must be written '~0'"),
            ("", "names a part of the states"),
        ],
    )
    def test_what_is_no_path_is_refused(self, path, message):
        with pytest.raises(ValueError, match=message):
            Redactions(paths=(path,))


REDACTIONS = {
    "a value": ((), (MAIL,)),
    "keys": (("/customers/*/customer_id",), ()),
    "a table": (("/customers",), ()),
    "notes": (("/notes/*/text",), ()),
    "names": ((), ("customer", "mail")),
    "a number": ((), ("1234.5",)),
    "all": (("/**",), ()),
}


@pytest.mark.parametrize(
    ("paths", "values"),
    [
        pytest.param(*each, id=name, marks=[] if name in ("keys", "notes") else pytest.mark.slow)
        for name, each in REDACTIONS.items()
    ],
)
def test_it_still_steps_and_says_that_it_is_redacted(new_page, packed, tmp_path, paths, values):
    found = Redacting(packed, paths, values)
    attributes = ' data-step="0" data-page=""'
    html = page._element(attributes, [payload.pack(found.content)], [found.content])
    path = tmp_path / "page.html"
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{html}{page.assets()}")
    opened = new_page(height=1400)
    opened.goto(f"file://{path}")
    opened.wait_for_selector(READY)
    view = View(opened, path)
    texts = []
    for step in range(5):
        assert view.step == step
        texts.append(view.app.inner_text())
        view.press("ArrowRight")
    shown = "\n".join(texts)
    assert "replaced by [redacted]" in shown
    for secret in found.redactor.finder.secrets:
        assert secret.text.lower() not in shown.lower()
    if paths == ("/notes/*/text",):  # the rows at the end come from the first ones and the changes
        rows = [line for line in texts[4].split("\n") if line.startswith('"[redacted ')]
        assert rows == ['"[redacted 2]"', '"[redacted 2]"', '"[redacted 3]"']


def test_two_episodes_share_what_stands_for_a_key(packed):
    redactor = Redactor(Redactions(("/customers/*/customer_id",)))
    states = [
        redact_payload(payload.unpack(packed), redactor)["chunks"][0]["state"] for _ in range(2)
    ]
    assert states[0] == states[1]


class TestHtml:
    def clean(self, source: str, *values: str) -> tuple[str, int]:
        redactor = Redactor(Redactions(values=values))
        found = tokens(source)
        redactor.tokens(found, "HTML", frozenset({"envbench-number"}))
        return html_of(found), sum(redactor.counts.values())

    @pytest.mark.parametrize(
        ("source", "clean"),
        [
            ("<b>sec</b>ret-1", "<b>[redacted]</b>"),
            ("<p>se<i>cr</i>e<b>t-</b>1!</p>", "<p>[redacted]<i></i><b></b>!</p>"),
            ("<td>secret-1</td><td>secret-12</td>", "<td>[redacted]</td><td>[redacted]2</td>"),
            ("<td>secret</td><td>-1</td>", "<td>secret</td><td>-1</td>"),
            ("<p>sec&#114;et-1", "<p>[redacted]"),
            ("<text>secr<tspan>et-1</tspan></text>", "<text>[redacted]<tspan></tspan></text>"),
            ('<a title="x SECRET-1">y</a>', '<a title="x [redacted]">y</a>'),
            ('<a href="?q=secret%2D1">y</a>', '<a href="?q=[redacted]">y</a>'),
            ("<i data-secret-1=x>y</i>", "<i>y</i>"),
            ("<style>.secret-1{}</style>", "<style>.[redacted]{}</style>"),
            ("<textarea>secret-1</textarea>", "<textarea>[redacted]</textarea>"),
            ("<p>secret-1</p><p>other</p>", "<p>[redacted]</p><p>other</p>"),
        ],
    )
    def test_a_value_goes_from_text_attributes_and_styles(self, source, clean):
        assert self.clean(source, "secret-1")[0] == clean

    def test_a_value_with_a_space_may_be_wrapped(self):
        made, count = self.clean(
            "<text><tspan>Ada</tspan><tspan>Lovelace</tspan></text>", "Ada Lovelace"
        )
        assert made == "<text><tspan>[redacted]</tspan><tspan></tspan></text>"
        assert count == 1

    def test_two_values_in_one_text(self):
        made, count = self.clean("a secret-1 b secret-2 c", "secret-1", "secret-2")
        assert made == "a [redacted] b [redacted] c"
        assert count == 2

    def test_numbers_that_place_things_are_moved_a_little(self):
        made, _ = self.clean('<svg><path d="M1234.5 7"/><text x="3">1,234.5</text></svg>', "1234.5")
        assert made == '<svg><path d="M1234.6 7"/><text x="3">[redacted]</text></svg>'

    def test_our_own_classes_are_left(self):
        made, count = self.clean('<b class="envbench-number">number</b>', "number")
        assert made == '<b class="envbench-number">[redacted]</b>'
        assert count == 1
