"""The encoder: what the recorder saw, as evidence.

It keeps one episode's running state (digest chain, states and arrays already written) while the
episode's parts come in, and looks for broken Gymnasium contracts a column at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add, itemgetter
from typing import Any

import numpy as np

from envbench.capture.contract import (
    Errors,
    check_flags,
    check_rewards,
    contract_error,
    is_dict,
    kind_name,
    outside_error,
)
from envbench.capture.frames import AS_BEFORE, RawFrame
from envbench.capture.recorder import (
    NOTHING,
    Header,
    RawEnding,
    RawPart,
    RawReset,
    RawState,
    Row,
    has_kept,
)
from envbench.capture.steps import Steps, gather_steps, own_rows
from envbench.changes.history import Change, History, sections_of
from envbench.evidence.digest import SCHEMA, Chain, Shown, join_object, state_hash
from envbench.evidence.frames import aligned, content_hash
from envbench.evidence.png import Picture, write_png
from envbench.evidence.portable import canonical, parse
from envbench.evidence.record import EncodedEpisode, StepColumns, reward_json
from envbench.evidence.spaces import SpaceCodec
from envbench.evidence.tagged import TAG, Cut, Encoding, describe_error, encode, tag
from envbench.store.writing import AuditEvent, EpisodePart, FrameRow, Seal

_RECENT_FRAMES = 1_000
"""Pictures whose PNG is remembered by their pixels."""


class EpisodeEncoder:
    """Turns the parts of one episode into rows.

    Args:
        header: what was known before the reset.
        repeat_arrays: give every part all the arrays that it refers to, not the new ones only.
    """

    def __init__(self, header: Header, *, repeat_arrays: bool = False) -> None:
        self.header = header
        self._repeat_arrays = repeat_arrays
        self._actions = self._observations = SpaceCodec(None)
        self._head: dict[str, bytes] = {}
        self._initial_state: str | None = None
        self._final: tuple[str | None, bytes | None] = (None, None)
        self._chain: Chain | None = None
        self._errors: list[bytes] = []
        self._issues: list[str] = []
        self._audit: list[tuple[int, AuditEvent]] = []
        self._history = History()
        self._underived = False
        self._seen_states: dict[bytes, str] = {}
        self._known_states: set[str] = set()
        self._known_arrays: set[str] = set()
        self._shown: Shown | None = None
        self._last_frame: str | None = None
        self._recent_frames: dict[bytes, str] = {}
        self._known_texts: set[str] = set()
        self._n_steps = 0
        self._n_attempts = 0
        self._return: float | None = 0.0
        self._reset_times: dict[str, Any] = {}
        self._noted: set[str] = set()

    def encode(self, raw: RawPart) -> EpisodePart:
        """Encode the next part; the last one comes with the seal."""
        part = EpisodePart(self.header.episode_id, self._n_steps + 1, StepColumns())
        part_is_first = self._chain is None
        if part_is_first:
            self._open(raw.reset, part)
        loose = [(error["step"], error) for error in raw.errors]
        # those noted before the first of these steps
        for step, error in loose:
            if step <= self._n_attempts:
                self._add_error(error, step, part)
        later = [(step, error) for step, error in loose if step > self._n_attempts]
        if part_is_first:
            if raw.ending is None:
                part.opening = self._opening()
        elif raw.ending is not None:
            part.was_open = True
        self._encode_audit(raw.audit, part)
        of_steps = self._encode_steps(raw.steps, part)
        for step, error in sorted([*of_steps, *later], key=itemgetter(0)):
            self._add_error(error, step, part)
        self._issues += raw.issues
        assert self._chain is not None
        self._chain.update(part.columns)
        if raw.ending is None:
            self._history.forget()  # states are kept by the part, not for as long as the episode
        else:
            part.seal = self._seal(raw.ending, part)
            part.changes = self._changes()
        return part

    def _open(self, reset: RawReset | None, part: EpisodePart) -> None:
        """Encode what is known once the environment was reset."""
        header = self.header
        self._history = History(header.row_keys)  # which an environment may name when it is made
        if header.surroundings is not None:  # known since the environment was made
            self._actions = header.surroundings.actions
            self._observations = header.surroundings.observations
        found = Encoding()
        initial = b"null"
        if reset is not None and reset.result is not NOTHING:
            initial = self._encode_reset(reset.result, found, part)
        case = header.case.to_dict()
        self._head = {
            **header.environment_head,
            "capture_steps": canonical(header.capture_steps),
            "case": canonical(case),
            "case_digest": canonical(header.case.digest),
            "case_id": canonical(header.case.case_id),
            "episode_id": canonical(header.episode_id),
            "initial": initial,
            "max_steps": canonical(header.max_steps),
            "observer_id": canonical(header.observer_id),
            "options": encode(header.options, found, "/options"),
            "provenance": _provenance_text(header),
            "recorded_at": canonical(header.recorded_at.isoformat(timespec="microseconds")),
            "row_keys": canonical(None if header.row_keys is None else dict(header.row_keys)),
            "schema": canonical(SCHEMA),
            "seed": canonical(header.seed),
        }
        if reset is not None:
            problems: list[dict[str, Any]] = []
            self._initial_state = self._keep_state(reset.state, 0, part, problems)
            for problem in problems:
                self._add_error(problem, 0, part)
            self._reset_times = {
                "started_at": self._moment(reset.started_ns),
                "reset_us": _microseconds(reset.started_ns, reset.ended_ns),
                "observe_us": _duration(reset.state.observe_ns),
            }
        else:
            self._reset_times = {"started_at": None, "reset_us": None, "observe_us": None}
        if header.frame_kind is not None:
            self._shown = Shown(header.frame_kind)
            frame = None if reset is None else reset.frame
            self._shown.update([self._keep_frame(frame, 0, part)])
            if frame is not None and frame.error is not None:
                self._add_error(frame.error, 0, part)
        self._keep_arrays(found.arrays, part)
        for error in _encode_errors(found):
            self._add_error(error, 0, part)
        self._chain = Chain(self._head, self._initial_state)

    def _encode_reset(self, result: Any, found: Encoding, part: EpisodePart) -> bytes:
        errors = Errors(())
        if type(result) is not tuple or len(result) != 2:
            message = f"reset returned {kind_name(result)}, not (observation, info)"
            errors.add(0, contract_error("reset", message, result))
            result = (result, {})
        observation, info = result
        (text,) = self._observations.encode([observation], found, "/initial/observation")
        if not has_kept(observation) and self._observations.outside([observation]):
            errors.add(0, outside_error(self._observations))
        if self.header.max_obs_chars is not None:
            text = _cut(text, self.header.max_obs_chars, "observation", errors, 0)
        if not is_dict(info):
            errors.add(0, contract_error("info", f"info is {kind_name(info)}, not a dict", info))
            info = None
        for _, of_reset in errors.items():
            for error in of_reset:
                self._add_error(error, 0, part)
        return join_object({"info": encode(info, found, "/initial/info"), "observation": text})

    def _add_error(self, error: dict[str, Any], step: int, part: EpisodePart) -> None:
        found = Encoding()
        self._errors.append(encode({**error, "step": step}, found))
        self._keep_arrays(found.arrays, part)

    def _encode_audit(self, events: list[tuple[int, dict[str, Any]]], part: EpisodePart) -> None:
        for step, event in events:
            found = Encoding()
            absent = {"key", "before", "after"} - set(event)
            texts = {
                name: None if name in absent or event[name] is None else encode(event[name], found)
                for name in ("key", "before", "after")
            }
            kept = AuditEvent(
                step_index=step,
                table_name=str(event.get("table")),
                op=str(event.get("op")),
                key=texts["key"],
                before=texts["before"],
                after=texts["after"],
            )
            self._keep_arrays(found.arrays, part)
            for error in _encode_errors(found):
                self._add_error(error, step, part)
            part.audit.append((len(self._audit), kept))
            self._audit.append((step, kept))

    def _encode_steps(self, rows: list[Row], part: EpisodePart) -> list[tuple[int, dict[str, Any]]]:
        """Encode steps, and return their errors with the steps they belong to."""
        if not rows:
            return []
        own = own_rows(rows, self.header.vector_index)
        seen, errors, found = gather_steps(own), Errors(own), Encoding()
        first = self._n_attempts + 1
        self._n_attempts += seen.n
        columns = part.columns if self.header.capture_steps else StepColumns()
        self._encode_actions(seen, columns, found, errors)
        self._encode_results(seen, columns, found, errors)
        self._encode_states(seen, first, columns, part, errors)
        self._encode_frames(seen, first, part, errors)
        epoch = self.header.epoch_ns
        started, ended = seen.started_ns, seen.ended_ns
        columns.started_at = [(epoch + at) // 1000 for at in started]
        taken = np.subtract(ended, started, dtype=np.int64) / 1000
        columns.step_us = taken.round(1).tolist()
        columns.error = [None] * seen.n
        for i, of_step in errors.items():
            columns.error[i] = _step_error(of_step, found)
        if self.header.capture_steps:
            self._keep_arrays(found.arrays, part)
        self._n_steps += len(part.columns)
        self._note_unfaithful()
        return [(first + i, error) for i, of_step in errors.items() for error in of_step]

    def _encode_actions(
        self, seen: Steps, columns: StepColumns, found: Encoding, errors: Errors
    ) -> None:
        texts = _located(self._actions, seen.actions, seen.taken, found, errors, "action")
        limit = self.header.max_action_chars
        if limit is not None:
            texts = [
                _cut(text, limit, "action", errors, i)
                for i, text in zip(seen.taken, texts, strict=True)
            ]
        columns.action = seen.spread(texts, seen.taken)

    def _encode_results(
        self, seen: Steps, columns: StepColumns, found: Encoding, errors: Errors
    ) -> None:
        for i, result in seen.malformed:
            message = f"step returned {kind_name(result)}, not a tuple of five"
            errors.add(i, contract_error("step", message, result))
        at = seen.returned
        texts = _located(self._observations, seen.observations, at, found, errors, "observation")
        for position in self._observations.outside(seen.observations):
            if not has_kept(seen.observations[position]):
                errors.add(at[position], outside_error(self._observations))
        limit = self.header.max_obs_chars
        if limit is not None:
            texts = [
                _cut(text, limit, "observation", errors, i)
                for i, text in zip(at, texts, strict=True)
            ]
        rewards = check_rewards(seen.rewards, at, errors)
        self._add_rewards(rewards)
        columns.observation = seen.spread(texts, at)
        columns.reward = seen.spread(rewards, at)
        columns.terminated = seen.spread(check_flags("terminated", seen.terminated, at, errors), at)
        columns.truncated = seen.spread(check_flags("truncated", seen.truncated, at, errors), at)
        columns.info = seen.spread(_info_texts(seen.infos, at, found, errors), at)

    def _add_rewards(self, rewards: Sequence[float | None]) -> None:
        if self._return is None or None in rewards:
            self._return = None  # one reward is unknown, so their sum is
        else:
            self._return = reduce(add, rewards, self._return)

    def _encode_states(
        self, seen: Steps, first: int, columns: StepColumns, part: EpisodePart, errors: Errors
    ) -> None:
        if not seen.states:
            columns.state_hash = [None] * seen.n
            columns.observe_us = [None] * seen.n
            return
        for i, state in enumerate(seen.states):
            problems: list[dict[str, Any]] = []
            columns.state_hash.append(self._keep_state(state, first + i, part, problems))
            columns.observe_us.append(_duration(state.observe_ns))
            for problem in problems:
                errors.add(i, problem)

    def _encode_frames(self, seen: Steps, first: int, part: EpisodePart, errors: Errors) -> None:
        if self._shown is None:
            return
        self._shown.update(
            [self._keep_frame(frame, first + i, part) for i, frame in enumerate(seen.frames)]
        )
        for i, frame in enumerate(seen.frames):
            if frame is not None and frame.error is not None:
                errors.add(i, frame.error)

    def _keep_frame(self, frame: RawFrame | None, step: int, part: EpisodePart) -> str | None:
        """Add a frame to the part, its content if the episode does not have it yet."""
        if frame is None or (frame.content is None and frame is not AS_BEFORE):
            return None
        text: bytes | None = None
        content = frame.content
        if isinstance(content, str):
            encoded = content.encode()
            self._last_frame = content_hash(encoded)
            if self._last_frame not in self._known_texts:
                self._known_texts.add(self._last_frame)
                text = encoded
        elif content is not None:
            self._last_frame = self._keep_picture(content, part)
        assert self._last_frame is not None
        assert self.header.frame_kind is not None
        part.frames.append(FrameRow(step, self.header.frame_kind, self._last_frame, text))
        return self._last_frame

    def _keep_picture(self, pixels: Picture, part: EpisodePart) -> str:
        """The SHA-256 of a picture's PNG, which is added to the part if it is a new one."""
        # most of those that come again do so soon, and their bytes are hashed faster than packed
        hashed = hashlib.sha256(b"%a" % (pixels.shape,))
        hashed.update(pixels.data)
        key = hashed.digest()
        digest = self._recent_frames.pop(key, None)
        if digest is None:
            content = write_png(pixels)
            digest = content_hash(content)
            self._keep_arrays({digest: content}, part)
        self._recent_frames[key] = digest
        if len(self._recent_frames) > _RECENT_FRAMES:
            del self._recent_frames[next(iter(self._recent_frames))]
        return digest

    def _keep_state(
        self, state: RawState, step: int, part: EpisodePart, errors: list[dict[str, Any]]
    ) -> str | None:
        """Hash a state and add it to the part if the episode does not have it yet."""
        if state.body is None:
            return None
        self._see_changes(step, state)
        if state.found is not None:
            self._keep_arrays(state.found.arrays, part)
            errors += _encode_errors(state.found, "/state")
        digest = self._seen_states.get(state.body)
        if digest is None:
            digest = state_hash(state.body)
            self._seen_states = {state.body: digest}  # the state before is the one most often met
            if digest not in self._known_states:
                self._known_states.add(digest)
                part.states.append((digest, step, state.body))
        return digest

    def _see_changes(self, step: int, state: RawState) -> None:
        """Show a state to the history; a fault there costs derived rows, never evidence."""
        if self._underived or state.body is None:
            return
        try:
            sections = state.sections or sections_of(parse(state.body))
            self._history.see(step, sections)
        except Exception as error:
            self._underived = True
            self._issues.append(
                f"note: changes could not be derived ({type(error).__name__}:"
                f" {describe_error(error)}); the states are kept, and rebuild_changes() tries again"
            )

    def _changes(self) -> list[Change] | None:
        if self._underived:
            return []
        return None if self._history.lost else self._history.changes()

    def _keep_arrays(self, arrays: Mapping[str, bytes], part: EpisodePart) -> None:
        for digest, content in arrays.items():
            if self._repeat_arrays:
                part.arrays[digest] = content
            elif digest not in self._known_arrays:
                self._known_arrays.add(digest)
                part.arrays[digest] = content

    def _note_unfaithful(self) -> None:
        for name, codec in (("action", self._actions), ("observation", self._observations)):
            if codec.unfaithful and name not in self._noted:
                self._noted.add(name)
                space = codec.description["repr"] if codec.description else "undeclared"
                self._issues.append(
                    f"note: {name}s of the space {space} are kept in tagged form, because its own"
                    " form does not give them back"
                )

    def _opening(self) -> bytes:
        """The header that an interrupted episode is adopted with."""
        cleanup = {"attempted": False, "completed": False, "error": None}
        parts = {
            **self._head,
            "audited": canonical(self.header.audited),
            "cleanup": canonical(cleanup if self.header.closes else None),
            "errors": b"[%b]" % b",".join(self._errors),
            "frames": canonical(self.header.frame_kind),
            "initial_state": canonical(self._initial_state),
            "reset": canonical(self._reset_times),
        }
        return join_object(parts)

    def _seal(self, raw: RawEnding, part: EpisodePart) -> Seal:
        final: list[dict[str, Any]] = []
        found = Encoding()
        output = encode(raw.output, found, "/output")
        state = self._keep_state(raw.state, self._n_attempts + 1, part, final)
        final += _encode_errors(found)
        for error in final:
            self._add_error(error, self._n_attempts, part)
        for codec in (self._actions, self._observations):
            codec.unfaithful = 0
        row_keys = self._history.row_keys
        audit = b"[%b]" % b",".join(_event_json(step, event) for step, event in self._audit)
        head = {
            **self._head,
            "audit": audit if self.header.audited else b"null",
            "cleanup": encode(raw.cleanup, Encoding()),
            "duration_ms": canonical(raw.duration_ms),
            "ending": canonical(raw.ending),
            "errors": b"[%b]" % b",".join(self._errors),
            "issues": canonical(self._issues + self._history.keys.issues),
            "output": output,
            "provenance": _provenance_text(self.header),
            "reset": canonical(self._reset_times),
            "row_keys": b"null" if self.header.observer_id is None else canonical(row_keys),
            "termination": canonical({"terminated": raw.terminated, "truncated": raw.truncated}),
            "totals": b'{"reward":%b,"steps":%d}' % (reward_json(self._return), self._n_attempts),
        }
        if self._shown is not None:
            head["frames"] = self._shown.summary()
        assert self._chain is not None
        digest, trajectory = self._chain.seal(head, state)
        return Seal(head, self._initial_state, state, raw.state.body, digest, trajectory)

    def _moment(self, nanoseconds: int | None) -> int | None:
        return None if nanoseconds is None else (self.header.epoch_ns + nanoseconds) // 1000


def _provenance_text(header: Header) -> bytes:
    provenance = header.provenance
    return canonical(
        {
            "agent_id": provenance.agent_id,
            "environment_version": provenance.environment_version,
            "environment_fingerprint": header.environment_fingerprint,
            "run_id": provenance.run_id,
            "repeat": provenance.repeat,
            "previous": provenance.previous,
            "labels": dict(provenance.labels),
        }
    )


def gather(parts: list[EpisodePart]) -> EncodedEpisode:
    """All parts of a sealed episode as one, in memory."""
    seal = parts[-1].seal
    if seal is None:
        raise ValueError("the episode is not sealed")
    columns = StepColumns()
    for part in parts:
        columns.extend(part.columns)
    arrays = {digest: content for part in parts for digest, content in part.arrays.items()}
    shown: list[str | None] = []
    frames: dict[str, bytes] = {}
    if "frames" in seal.head:
        rows = [row for part in parts for row in part.frames]
        shown = aligned([(row.step_index, row.digest) for row in rows], len(columns))
        frames = {row.digest: row.text for row in rows if row.text is not None}
        frames |= {row.digest: arrays[row.digest] for row in rows if row.kind == "rgb_array"}
    return EncodedEpisode(
        parts=dict(seal.head),
        columns=columns,
        states={digest: body for part in parts for digest, _, body in part.states},
        arrays=arrays,
        initial_state=seal.initial_state,
        final_state=seal.final_state,
        digest=seal.digest,
        trajectory_digest=seal.trajectory_digest,
        shown=shown,
        frames=frames,
    )


def _located(
    codec: SpaceCodec,
    values: Sequence[Any],
    positions: Sequence[int],
    found: Encoding,
    errors: Errors,
    name: str,
) -> list[bytes]:
    """Encode samples; values that cannot be kept become errors of the steps they belong to."""
    whole = Encoding()
    texts = codec.encode(values, whole)
    found.arrays.update(whole.arrays)
    if whole.problems:
        for position, value in zip(positions, values, strict=True):
            alone = Encoding()
            codec.encode([value], alone, f"/{name}")
            for error in _encode_errors(alone):
                errors.add(position, error)
    return texts


def _info_texts(
    infos: Sequence[Any], positions: Sequence[int], found: Encoding, errors: Errors
) -> list[bytes]:
    if set(map(type, infos)) <= {dict} and not any(infos):
        return [b"{}"] * len(infos)
    texts = []
    for i, info in zip(positions, infos, strict=True):
        if not is_dict(info):
            message = f"info is {kind_name(info)}, not a dict"
            errors.add(i, contract_error("info", message, info))
            texts.append(b"null")
            continue
        alone = Encoding()
        texts.append(encode(info, alone, "/info"))
        found.arrays.update(alone.arrays)
        for error in _encode_errors(alone):
            errors.add(i, error)
    return texts


def _cut(text: bytes, limit: int, name: str, errors: Errors, step: int) -> bytes:
    """Cut a value that is longer than the caller wants to keep, and mark it."""
    whole = text.decode()
    if len(whole) <= limit:
        return text
    digest = state_hash(text)
    errors.add(
        step,
        {
            "phase": "limit",
            "type": "Cut",
            "message": f"{name} of {len(whole)} characters was cut to {limit}",
            "field": name,
            "length": len(whole),
            "sha256": digest,
        },
    )
    return canonical({TAG: "sample", "value": tag(Cut(whole[:limit], len(whole), digest))})


def _encode_errors(found: Encoding, above: str = "") -> list[dict[str, Any]]:
    return [
        {
            "phase": "encode",
            "type": problem.type,
            "message": problem.reason,
            "place": above + problem.place,
        }
        for problem in found.problems
    ]


def _step_error(errors: list[dict[str, Any]], found: Encoding) -> bytes:
    first, *more = errors
    return encode({**first, "more": more} if more else first, found)


def _event_json(step: int, event: AuditEvent) -> bytes:
    return join_object(
        {
            "after": event.after or b"null",
            "before": event.before or b"null",
            "key": event.key or b"null",
            "op": canonical(event.op),
            "step": canonical(step),
            "table": canonical(event.table_name),
        }
    )


def _microseconds(started: int | None, ended: int | None) -> float | None:
    return None if started is None or ended is None else _duration(ended - started)


def _duration(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds / 1000, 1)
