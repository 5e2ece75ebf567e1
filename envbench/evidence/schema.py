"""What `.data` must look like: every key, type and rule that a digest alone does not hold.

Evidence whose digest fits can still break the schema, when another program wrote it. A checker
refuses such evidence here, naming the place, so that checks never meet a malformed episode.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any

from envbench.evidence.case import EXPECTS, EvalCase, case_digest
from envbench.evidence.digest import SCHEMA
from envbench.evidence.frames import FRAME_KINDS
from envbench.evidence.png import png_size
from envbench.evidence.portable import MAX_DEPTH, Json, canonical
from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import TAG, TAG_BYTES, Encoding, decode, extract_arrays, tag

ENDINGS = (
    "terminated",
    "truncated",
    "policy_stop",
    "step_limit",
    "error",
    "interrupted",
    "reset_early",
    "closed_early",
)

PHASES = (
    "setup",
    "reset",
    "action",
    "step",
    "observe_reset",
    "observe_step",
    "observe_final",
    "interaction",
    "step_limit",
    "lifecycle",
    "encode",
    "contract",
    "limit",
    "audit",
    "render",
    "close",
)

Check = Callable[[Any, str], None]


def check_schema(data: Mapping[str, Json]) -> None:
    """Refuse a `.data` that does not fit the schema.

    Args:
        data: parsed JSON with every large array in place.

    Raises:
        ValueError: naming the place as a JSON Pointer, what was expected and what was found.
    """
    if type(data) is not dict:
        raise ValueError(f"/: expected an object, found {_found(data)}")
    schema = data.get("schema")
    if schema != SCHEMA:
        raise ValueError(f"/schema: expected {SCHEMA!r}, found {schema!r}")
    _fields(data, "", {**_TOP, **_RENDERED} if "frames" in data else _TOP)
    _check_case(data)
    _check_steps(data)
    _check_samples(data)
    _check_frames(data)
    _check_termination(data)


def _fields(value: Any, place: str, expected: Mapping[str, Check]) -> None:
    """Check an object that has exactly the expected keys."""
    if type(value) is not dict:
        raise ValueError(f"{place or '/'}: expected an object, found {_found(value)}")
    for key in expected:
        if key not in value:
            raise ValueError(f"{place}/{key}: missing")
    for key in value:
        if key not in expected:
            raise ValueError(f"{place}/{key}: not a key of {SCHEMA}")
    for key, check in expected.items():
        check(value[key], f"{place}/{key}")


def _kind(name: str, *types: type, null: bool = False) -> Check:
    def check(value: Any, place: str) -> None:
        if not (type(value) in types or (null and value is None)):
            raise ValueError(f"{place}: expected {name}, found {_found(value)}")

    return check


def _either(check: Check) -> Check:
    def check_or_null(value: Any, place: str) -> None:
        if value is not None:
            check(value, place)

    return check_or_null


def _object(**expected: Check) -> Check:
    return lambda value, place: _fields(value, place, expected)


def _list_of(check: Check) -> Check:
    def check_all(value: Any, place: str) -> None:
        if type(value) is not list:
            raise ValueError(f"{place}: expected a list, found {_found(value)}")
        for i, item in enumerate(value):
            check(item, f"{place}/{i}")

    return check_all


def _one_of(*names: str) -> Check:
    def check(value: Any, place: str) -> None:
        if value not in names or type(value) is not str:
            raise ValueError(f"{place}: expected one of {', '.join(names)}, found {value!r}")

    return check


def _matching(name: str, pattern: str) -> Check:
    compiled = re.compile(pattern)

    def check(value: Any, place: str) -> None:
        if type(value) is not str or not compiled.fullmatch(value):
            raise ValueError(f"{place}: expected {name}, found {_found(value)}")

    return check


def _at_least(minimum: int) -> Check:
    def check(value: Any, place: str) -> None:
        if type(value) is not int or value < minimum:
            raise ValueError(f"{place}: expected an integer from {minimum}, found {_found(value)}")

    return check


def _tagged(value: Any, place: str) -> None:
    """Check that tagged values inside decode, and are written in the one way there is."""
    if TAG_BYTES not in canonical(value):
        return
    found = Encoding()
    try:
        plain = extract_arrays(value, found.arrays)
        again = tag(decode(plain, found.arrays), found, depth=MAX_DEPTH)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    except (KeyError, TypeError) as error:  # an array without its keys
        raise ValueError(f"{place}: malformed tag: {type(error).__name__}: {error}") from None
    if canonical(again) != canonical(plain):
        raise ValueError(f"{place}: a tagged value is not written as its tag prescribes")


def _sample(codec: SpaceCodec, value: Any, place: str) -> None:
    """Check that a value is a sample of a space, as the space writes it."""
    if type(value) is dict and value.get(TAG) == "sample":
        _fields(value, place, {TAG: _text, "value": _any})
        _tagged(value["value"], f"{place}/value")
        return
    arrays: dict[str, bytes] = {}
    try:
        plain = extract_arrays(value, arrays)
        (again,) = codec.encode([codec.decode(plain, arrays)], Encoding())
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from None
    if again != canonical(plain):
        raise ValueError(f"{place}: not a sample as its space writes it")


def _space(value: Any, place: str) -> None:
    if value is None:
        return
    if type(value) is not dict:
        raise ValueError(f"{place}: expected an object or null, found {_found(value)}")
    for key in ("type", "repr"):
        if type(value.get(key)) is not str:
            raise ValueError(f"{place}/{key}: expected text, found {_found(value.get(key))}")
    try:
        SpaceCodec.from_description(value)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from None


def _state(value: Any, place: str) -> None:
    if type(value) is not dict:
        raise ValueError(f"{place}: expected an object, found {_found(value)}")
    _tagged(value, place)


def _reward(value: Any, place: str) -> None:
    names = ("nan", "inf", "-inf")
    special = type(value) is dict and value in [{TAG: "float", "value": name} for name in names]
    if not (type(value) is float or value is None or special):
        raise ValueError(f"{place}: expected a double or null, found {_found(value)}")


def _number(value: Any, place: str) -> None:
    if type(value) not in (int, float) or value < 0:
        raise ValueError(f"{place}: expected a number from 0, found {_found(value)}")


def _error(value: Any, place: str) -> None:
    """An error has phase, type and message; what else it holds depends on the phase."""
    if type(value) is not dict:
        raise ValueError(f"{place}: expected an object, found {_found(value)}")
    for key, check in (("phase", _one_of(*PHASES)), ("type", _text), ("message", _content)):
        if key not in value:
            raise ValueError(f"{place}/{key}: missing")
        check(value[key], f"{place}/{key}")
    step = value.get("step")
    if step is not None:
        _at_least(0)(step, f"{place}/step")
    _tagged(value, place)


def _content(value: Any, place: str) -> None:
    """Text, also when it holds a lone surrogate and is tagged for it."""
    if type(value) is str:
        return
    if type(value) is not dict or value.get(TAG) != "str":
        raise ValueError(f"{place}: expected text, found {_found(value)}")
    _tagged(value, place)


def _found(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({type(value).__name__})"


_any: Check = lambda value, place: None  # noqa: E731
_text = _kind("text", str)
_text_or_null = _kind("text or null", str, null=True)
_flag = _kind("true or false", bool)
_sha256 = _matching("64 hexadecimal digits", "[0-9a-f]{64}")
_id = _matching("a UUID", "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _moment(value: Any, place: str) -> None:
    """Check a time in UTC with microseconds, as `datetime.isoformat` writes it."""
    try:
        moment = datetime.datetime.fromisoformat(value)
        fits = value == moment.astimezone(datetime.UTC).isoformat(timespec="microseconds")
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ValueError(
            f"{place}: expected a time in UTC with microseconds, found {_found(value)}"
        )


_STEP: dict[str, Check] = {
    "index": _at_least(1),
    "action": _any,  # see _check_samples
    "transition": _either(
        _object(
            observation=_any,
            reward=_reward,
            terminated=_kind("true, false or null", bool, null=True),
            truncated=_kind("true, false or null", bool, null=True),
            info=_tagged,
        )
    ),
    "state": _either(_state),
    "error": _either(_error),
    "started_at": _kind("an integer or null", int, null=True),
    "step_us": _either(_number),
    "observe_us": _either(_number),
}

_TOP: dict[str, Check] = {
    "schema": _text,
    "episode_id": _id,
    "case": _object(
        input=_any,
        case_id=_text,
        source_id=_text_or_null,
        tags=_list_of(_text),
        expects=_one_of(*EXPECTS),
        reference_digest=_either(_sha256),
    ),
    "case_id": _text,
    "case_digest": _sha256,
    "environment_id": _text,
    "environment_spec": _any,
    "wrappers": _list_of(_text),
    "observer_id": _text_or_null,
    "gymnasium_version": _text,
    "packages": _kind("an object", dict),
    "seed": _either(_at_least(0)),
    "max_steps": _either(_at_least(1)),
    "options": _tagged,
    "recorded_at": _moment,
    "spaces": _either(_object(action=_space, observation=_space)),
    "initial": _either(_object(observation=_any, info=_tagged)),
    "initial_state": _either(_state),
    "steps": _kind("a list", list),
    "final_state": _either(_state),
    "output": _either(_content),
    "errors": _list_of(_error),
    "issues": _list_of(_text),
    "cleanup": _either(_object(attempted=_flag, completed=_flag, error=_either(_error))),
    "duration_ms": _number,
    "termination": _object(terminated=_flag, truncated=_flag),
    "ending": _one_of(*ENDINGS),
    "capture_steps": _flag,
    "provenance": _object(
        agent_id=_text_or_null,
        environment_version=_text_or_null,
        environment_fingerprint=_text_or_null,
        run_id=_text_or_null,
        repeat=_at_least(0),
        previous=_text_or_null,
        labels=_kind("an object", dict),
    ),
    "row_keys": _either(_kind("an object", dict)),
    "audit": _either(
        _list_of(
            _object(
                step=_at_least(0), table=_text, op=_text, key=_tagged, before=_tagged, after=_tagged
            )
        )
    ),
    "reset": _object(
        started_at=_kind("an integer or null", int, null=True),
        reset_us=_either(_number),
        observe_us=_either(_number),
    ),
    "totals": _object(steps=_at_least(0), reward=_either(_reward)),
    "digest": _sha256,
    "trajectory_digest": _sha256,
}

_RENDERED: dict[str, Check] = {
    "frames": _object(
        kind=_one_of(*FRAME_KINDS),
        shown=_list_of(_either(_sha256)),
        content=_kind("an object", dict),
    ),
}

DATA_KEYS = tuple(_TOP)
"""Every key of `.data`, in the order in which they are handed out; a rendered episode has `frames`
too."""


TAGGED_KEYS = ("options", "initial", "output", "errors", "audit", "cleanup")
"""Keys of `.data`, beside steps and states, that hold tagged values; the others are as they are."""


def _check_case(data: Mapping[str, Json]) -> None:
    case = data["case"]
    try:
        EvalCase.from_dict(case)
    except (TypeError, ValueError) as error:
        raise ValueError(f"/case: {error}") from None
    if case["case_id"] != data["case_id"]:
        raise ValueError(
            f"/case_id: {data['case_id']!r} is not the case's own, {case['case_id']!r}"
        )
    if case_digest(case) != data["case_digest"]:
        raise ValueError("/case_digest: not the digest of the case that is recorded beside it")


def _check_steps(data: Mapping[str, Json]) -> None:
    steps = data["steps"]
    ended = None
    for i, step in enumerate(steps):
        place = f"/steps/{i}"
        _fields(step, place, _STEP)
        if step["index"] != i + 1:
            raise ValueError(f"{place}/index: expected {i + 1}, found {step['index']}: a gap")
        if ended is not None:
            raise ValueError(f"{place}: a step after the episode ended at step {ended}")
        transition = step["transition"]
        if transition is not None and (transition["terminated"] or transition["truncated"]):
            ended = i + 1
    if data["max_steps"] is not None and len(steps) > data["max_steps"]:
        raise ValueError(f"/steps: {len(steps)} steps, more than max_steps {data['max_steps']}")
    if data["capture_steps"]:
        if data["totals"]["steps"] != len(steps):
            raise ValueError(f"/totals/steps: {data['totals']['steps']}, but {len(steps)} are kept")
    elif steps:
        raise ValueError("/steps: steps are kept although capture_steps is false")


def _check_samples(data: Mapping[str, Json]) -> None:
    """Check actions and observations against the spaces that are recorded beside them."""
    spaces = data["spaces"] or {"action": None, "observation": None}
    actions = SpaceCodec.from_description(spaces["action"])
    observations = SpaceCodec.from_description(spaces["observation"])
    if data["initial"] is not None:
        _sample(observations, data["initial"]["observation"], "/initial/observation")
    for i, step in enumerate(data["steps"]):
        if step["action"] is not None:
            _sample(actions, step["action"], f"/steps/{i}/action")
        if step["transition"] is not None:
            place = f"/steps/{i}/transition/observation"
            _sample(observations, step["transition"]["observation"], place)


def _check_frames(data: Mapping[str, Json]) -> None:
    """Check that there is a frame or null for each state, and that each content is shown."""
    if "frames" not in data:
        return
    frames = data["frames"]
    shown, content = frames["shown"], frames["content"]
    named = set(shown)
    if not data["capture_steps"]:
        raise ValueError("/frames: frames are kept although capture_steps is false")
    if len(shown) != len(data["steps"]) + 1:
        raise ValueError(
            f"/frames/shown: {len(shown)} entries, where {len(data['steps'])} steps and the reset"
            " have one each"
        )
    for i, digest in enumerate(shown):
        if digest is not None and digest not in content:
            raise ValueError(f"/frames/shown/{i}: the content of {digest} is missing")
    for digest, value in content.items():
        place = f"/frames/content/{digest}"
        if digest not in named:
            raise ValueError(f"{place}: no frame shows it")
        _text(value, place)
        if frames["kind"] == "rgb_array":
            try:
                png = base64.b64decode(value, validate=True)
                png_size(png)
            except (binascii.Error, ValueError) as error:
                raise ValueError(f"{place}: {error}") from None
            if base64.b64encode(png).decode() != value:
                raise ValueError(f"{place}: not the one way to write these bytes in Base64")


def _check_termination(data: Mapping[str, Json]) -> None:
    flags, ending = data["termination"], data["ending"]
    steps = data["steps"]
    last = steps[-1]["transition"] if steps else None
    if data["capture_steps"]:
        seen = {name: bool(last and last[name]) for name in ("terminated", "truncated")}
        unsure = bool(last and (last["terminated"] is None or last["truncated"] is None))
        if flags != seen and not unsure:
            raise ValueError(f"/termination: {flags} does not match the last transition, {seen}")
    if ending == "terminated" and not flags["terminated"]:
        raise ValueError("/ending: terminated, but the environment did not terminate")
    if ending == "truncated" and not (flags["truncated"] and not flags["terminated"]):
        raise ValueError("/ending: truncated, but the flags say otherwise")
