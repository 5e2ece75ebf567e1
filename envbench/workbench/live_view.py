"""`LiveView`: a static page with a live link to Python, and what all such views answer.

What a notebook keeps of a view is its static page, which needs no kernel. The widget has no view of
its own there: where a kernel runs, its model finds the page and binds to it. A view that belongs to
a widget would be a "model not found" when the notebook is opened again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from envbench.workbench.page import script_text, style_text

if TYPE_CHECKING:
    from envbench.workbench.payload import Payload


def module_of(name: str, *scripts: str) -> str:
    """The script of steppers and some more of `static/` as one module, which exports a widget.

    Args:
        name: the global name under which the widget's script has put it.
        scripts: names of files; they run as on a page.
    """
    static = resources.files("envbench.workbench").joinpath("static")
    stepper = 'globalThis["envbench.stepper/1"]'
    texts = [script_text(), f"{stepper}.css ||= {json.dumps(style_text())};"]
    texts += [static.joinpath(script).read_text("utf-8") for script in scripts]
    return "\n".join([*texts, f'export default globalThis["{name}"].widget;\n'])


class LiveView(anywidget.AnyWidget):
    """A view that a notebook keeps as a static page, and that answers it while a kernel runs.

    A subclass gives `html`, sets the `payloads` that its page steps through, and may answer more.

    Attributes:
        view_id: names the page that this model binds to.
        payloads: the episodes that are shown in a stepper: one, or two side by side.
    """

    kind = "a view"
    """What messages call a view of the class."""

    view_id = traitlets.Unicode("").tag(sync=True)

    def __init__(self, *, payloads: Sequence[Payload] = (), **traits: Any) -> None:
        self.payloads = tuple(payloads)
        super().__init__(view_id=uuid.uuid4().hex, **traits)
        self.on_msg(self._answer)

    @property
    def html(self) -> str:
        """What a notebook keeps: a static page."""
        raise NotImplementedError

    def answer(self, what: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question of the page; whatever is raised is shown there.

        Args:
            what: what is asked for; what steppers ask for is answered before.
            message: all of it.

        Raises:
            ValueError: when this view does not know what is asked for.
        """
        raise ValueError(f"{self.kind} does not know {what!r}")

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """The static page alone; see the module for why there is no view of the widget."""
        return {"text/html": self.html, "text/plain": repr(self)}, {}

    def _answer(self, _: Any, message: Mapping[str, Any], buffers: Any) -> None:
        identity = {"id": message.get("id")}
        try:
            content, found = self._found(message)
        except Exception as error:  # the page says what went wrong, where the user looks
            self.send({**identity, "error": f"{type(error).__name__}: {error}"})
        else:
            self.send({**identity, **content}, found)

    def _found(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """What a message asks for: an object, and the bytes that go with it."""
        what = message["what"]
        if what == "chunk":
            return {}, [self._side(message).chunk(int(message["name"]))]
        if what == "frame":
            return {}, [self._side(message).frame(str(message["name"]))]
        return self.answer(what, message), []

    def _side(self, message: Mapping[str, Any]) -> Payload:
        return self.payloads[int(message["side"])]
