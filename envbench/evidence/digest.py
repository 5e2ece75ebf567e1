"""Digests: SHA-256 over the canonical form, chained step by step.

`docs/evidence-format.md` gives the formula with a worked example, so that any program can
recompute it. States enter by the SHA-256 of their canonical form, large arrays by dtype, shape and
SHA-256, so that a long episode is sealed in constant memory.

A digest shows that evidence was altered. It does not show who made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

from envbench.evidence.portable import canonical
from envbench.evidence.record import StepColumns, reward_json

SCHEMA = "envbench.episode/v1"

TRAJECTORY_HEAD = ("case_digest", "initial", "max_steps", "options", "schema", "seed", "spaces")
"""Keys of `.data` that open the trajectory's chain, beside the hash of the initial state."""

TRAJECTORY_FOOT = ("audit", "ending", "errors", "output", "termination")
"""Keys of `.data` that close the trajectory's chain, beside the hash of the final state."""


def state_hash(body: bytes) -> str:
    """SHA-256 of a state's canonical form, in hexadecimal."""
    return hashlib.sha256(body).hexdigest()


class Chain:
    """The two running digests of an episode: its trajectory, and its times.

    Args:
        head: canonical JSON by key; those of `TRAJECTORY_HEAD` are used.
        initial_state: hash of the state after reset, or None when it was not seen.
    """

    __slots__ = ("_times", "_trajectory", "n_steps")

    def __init__(self, head: Mapping[str, bytes], initial_state: str | None) -> None:
        parts = {key: head[key] for key in TRAJECTORY_HEAD}
        parts["initial_state"] = _quoted(initial_state)
        self._trajectory = hashlib.sha256(join_object(parts)).digest()
        self._times = hashlib.sha256()
        self.n_steps = 0

    def update(self, steps: StepColumns) -> None:
        """Add the next steps."""
        sha256, trajectory, index = hashlib.sha256, self._trajectory, self.n_steps
        for (
            action,
            observation,
            reward,
            terminated,
            truncated,
            info,
            state,
            error,
            *_,
        ) in steps.rows():
            index += 1
            if info is None:
                transition = b"null"
            else:
                transition = _TRANSITION[terminated, truncated] % (
                    info,
                    observation,
                    reward_json(reward),
                )
            trajectory = sha256(
                b'%b{"action":%b,"error":%b,"index":%d,"state":%b,"transition":%b}'
                % (
                    trajectory,
                    action or b"null",
                    error or b"null",
                    index,
                    b'"%b"' % state.encode() if state else b"null",
                    transition,
                )
            ).digest()
        self._trajectory, self.n_steps = trajectory, index
        times = zip(steps.started_at, steps.step_us, steps.observe_us, strict=True)
        # the repr of None is the one that is not JSON; no number's holds its letters
        self._times.update(
            b"".join([b"[%a,%a,%a]" % took for took in times]).replace(b"None", b"null")
        )

    def seal(self, head: Mapping[str, bytes], final_state: str | None) -> tuple[str, str]:
        """Close the chain.

        What was shown has its part in `head`, see `Shown`: it is in the digest of all evidence and
        not in that of the trajectory, which is the same whether somebody watched or not.

        Args:
            head: canonical JSON of every key of `.data` but the steps, states and digests; that of
                the frames is what `Shown.summary` gives.
            final_state: hash of the last state, or None when it was not seen.

        Returns:
            The digest of all evidence and the digest of the trajectory, in hexadecimal.
        """
        foot = {key: head[key] for key in TRAJECTORY_FOOT}
        foot["final_state"] = _quoted(final_state)
        trajectory = hashlib.sha256(self._trajectory + join_object(foot)).hexdigest()
        whole = {
            **head,
            "final_state": _quoted(final_state),
            "steps": b'{"count":%d,"times":"%b"}'
            % (self.n_steps, self._times.hexdigest().encode()),
            "trajectory_digest": _quoted(trajectory),
        }
        return hashlib.sha256(join_object(whole)).hexdigest(), trajectory


class Shown:
    """The running digest of which frame an episode showed when.

    Args:
        kind: ``"rgb_array"`` or ``"ansi"``.
    """

    __slots__ = ("_count", "_hash", "_kind")

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._hash = hashlib.sha256()
        self._count = 0

    def update(self, frames: Iterable[str | None]) -> None:
        """Add the next frames by the SHA-256 of their content, None where there is none."""
        entries = list(map(_quoted, frames))
        self._count += len(entries)
        self._hash.update(b"".join(entries))

    def summary(self) -> bytes:
        """The canonical JSON by which the frames enter the digest of all evidence."""
        return b'{"count":%d,"kind":"%b","sha256":"%b"}' % (
            self._count,
            self._kind.encode(),
            self._hash.hexdigest().encode(),
        )


def shown(kind: str, frames: Iterable[str | None]) -> bytes:
    """The summary of all frames of an episode; see `Shown`."""
    digest = Shown(kind)
    digest.update(frames)
    return digest.summary()


def seal(
    head: Mapping[str, bytes],
    initial_state: str | None,
    steps: Iterable[StepColumns],
    final_state: str | None,
) -> tuple[str, str]:
    """Digest a whole episode; see `Chain`."""
    chain = Chain(head, initial_state)
    for block in steps:
        chain.update(block)
    return chain.seal(head, final_state)


def join_object(parts: Mapping[str, bytes]) -> bytes:
    """The canonical object whose values are already in canonical form."""
    return b"{%b}" % b",".join([_key(key) + parts[key] for key in sorted(parts)])


@lru_cache(maxsize=4096)
def _key(key: str) -> bytes:
    return canonical(key) + b":"


_FLAGS = ((True, b"true"), (False, b"false"), (None, b"null"))
# the canonical form of a transition, by its flags
_TRANSITION = {
    (terminated, truncated): (
        b'{"info":%%b,"observation":%%b,"reward":%%b,"terminated":%b,"truncated":%b}'
        % (first, second)
    )
    for terminated, first in _FLAGS
    for truncated, second in _FLAGS
}


def _quoted(text: str | None) -> bytes:
    return b"null" if text is None else b'"%b"' % text.encode()
