"""What stands in an exported page runs nothing and fetches nothing."""

from __future__ import annotations

import pytest

from envbench.workbench.html_tokens import html_of, tokens
from envbench.workbench.inert_html import Inert, data_of

PICTURE = "data:image/png;base64,iVBORw0KGgo="


def inert(source, embed=lambda address: None):
    made = Inert(embed)
    return html_of(made.tokens(tokens(source))), made.left_out


@pytest.mark.parametrize(
    ("source", "written", "left_out"),
    [
        ("<script>alert(1)</script>hi", "hi", ["script"]),
        ("<script src=https://x.org/a.js></script>", "", ["script"]),
        ("<b onclick=alert(1) onmouseover=x>b</b>", "<b>b</b>", []),
        ("<a href='java\nscript:alert(1)'>x</a>", "<a>x</a>", []),
        ("<a href='data:text/html,x'>x</a>", "<a>x</a>", []),
        ("<a href='#here'>x</a>", '<a href="#here">x</a>', []),
        (
            "<a href='https://x.org' ping=y target=_blank>x</a>",
            '<a href="https://x.org" rel="noopener noreferrer">x</a>',
            [],
        ),
        (
            "<img src=http://x.org/a.png>",
            "<em>[a picture that is not in the notebook is left out]</em>",
            ["picture"],
        ),
        ("<img src=//x.org/a.png alt=b>", None, ["picture"]),
        (f"<img src={PICTURE}>", f'<img src="{PICTURE}" alt>', []),
        (f"<img src={PICTURE} srcset='http://x.org/a 2x'>", f'<img src="{PICTURE}" alt>', []),
        ("<input type=image src=http://x.org>", '<input type="image">', ["address"]),
        ("<video src=http://x.org/a poster=b></video>", "<video></video>", ["address"]),
        ("<iframe src=http://x.org>in</iframe>z", "<em>[frame left out]</em>z", ["frame"]),
        ("<iframe srcdoc='<b>x</b>'></iframe>", "<em>[frame left out]</em>", ["frame"]),
        ("<object data=x><b>in</b></object>out", "out", ["object"]),
        ("<embed src=x>", "", []),
        ("<meta http-equiv=refresh content='0;url=http://x.org'>x", "x", []),
        ("<body onload=x><base href=http://x.org><link rel=stylesheet href=y>t", "t", []),
        ("<form action=http://x.org><button formaction=y>b</button></form>", None, []),
        ("<td background=http://x.org/a.png>", "<td>", []),
        (
            "<div style='background:url(http://x.org)'>x</div>",
            '<div style="background:none">x</div>',
            ["style"],
        ),
        (
            r"<div style='background:u\72l(http://x.org)'>x</div>",
            '<div style="background:none">x</div>',
            ["style"],
        ),
        ("<style>@import 'http://x.org';a{b:c}</style>", "<style> a{b:c}</style>", ["style"]),
        ("<style>a{b:url(//x.org)}</style>", "<style>a{b:none}</style>", ["style"]),
        (
            r"<style>.a\:b{color:red} @media (width<6px){}</style>",
            r"<style>.a\:b{color:red} @media (width<6px){}</style>",
            [],
        ),
        (
            f"<p style='background:url({PICTURE})'>x</p>",
            f'<p style="background:url({PICTURE})">x</p>',
            [],
        ),
        (
            "<svg><style><img src=x onerror=y></style></svg>",
            r"<svg><style>\3c img src=x onerror=y></style></svg>",
            [],
        ),
        (
            "<svg><use href='http://x.org#a'/><use href='#a'/></svg>",
            '<svg><use/><use href="#a"/></svg>',
            ["address"],
        ),
        ("<svg fill='url(http://x.org)' stroke='url(#g)'/>", None, ["style"]),
        ("<svg><animate attributeName=href to=http://x.org /></svg>", "<svg></svg>", []),
        ("<img name=querySelectorAll src=#>", '<img src="#" alt>', []),
        ("<noscript><img src=http://x.org></noscript>a", "a", []),
        ("<template><img src=http://x.org></template>a", "a", ["template"]),
    ],
)
def test_what_runs_or_fetches_is_left_out(source, written, left_out):
    made, said = inert(source)
    assert said == left_out
    if written is not None:
        assert made == written
    assert "x.org" not in made or "<a href" in made


def test_packed_episodes_stay_and_nothing_that_only_looks_like_one():
    kind = "application/vnd.envbench.episode+gzip"
    assert inert(f"<script type='{kind}'>H4sI.AA==</script>")[0] == (
        f'<script type="{kind}">H4sI.AA==</script>'
    )
    made, said = inert(f"<script type='{kind}' src=x>alert(1)</script>")
    assert (made, said) == ("", ["script"])


def test_a_picture_beside_the_notebook_is_embedded():
    asked = []

    def embed(address):
        asked.append(address)
        return PICTURE

    made, _ = inert("<img alt=f src=figure.png>", embed)
    assert made == f'<img alt="f" src="{PICTURE}">'
    inert("<img src=file:///etc/passwd><img src=https://x.org>", embed)
    assert set(asked) == {"figure.png"}


@pytest.mark.parametrize(
    ("address", "read"),
    [
        ("data:text/plain;base64,YWI=", ("text/plain", b"ab")),
        ("data:text/plain,a%20b", ("text/plain", b"a b")),
        ("DATA:image/svg+xml;charset=utf-8,<svg>", ("image/svg+xml", b"<svg>")),
        ("data:image/png;base64,YW\nI=", ("image/png", b"ab")),
        ("https://x.org", None),
        ("data:image/png;base64,a", None),
    ],
)
def test_data_addresses_are_read(address, read):
    assert data_of(address) == read
