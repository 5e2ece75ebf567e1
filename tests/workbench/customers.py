"""Episodes that hold what nobody outside should see: names, addresses, accounts, a PIN."""

from __future__ import annotations

import copy
import string
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Text

from envbench.capture import capture_episode
from envbench.changes import Forbid
from envbench.checks import no_forbidden_changes
from envbench.evidence import EpisodeEvidence, EvalCase

MAIL = "zoe.oneill@example.org"
IBAN = "DE08657640614154451479"
PIN = "417"
BALANCE = 1234.5

FORBIDDEN = no_forbidden_changes(Forbid("/customers/*/iban"), name="no_account_changed")


class Customers(gymnasium.Env[Any, int]):
    """Action 0 changes an account, 1 puts it back, 2 adds and drops rows, 3 writes a note."""

    action_space = Discrete(4)
    observation_space = Dict(
        {
            "mail": Text(40, charset=string.printable),
            "balance": Box(0, 1e6, (1,), np.float64),
            "n": Discrete(100),
        }
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.n = 0
        self.state: dict[str, Any] = {
            "customers": [
                {"customer_id": "C-1", "mail": MAIL, "iban": IBAN, "pin": PIN, "vip": True},
                {
                    "customer_id": "C-2",
                    "mail": "b@example.org",
                    "iban": "X",
                    "pin": "9",
                    "vip": False,
                },
            ],
            "by_mail": {MAIL: {"logins": 3}, "b@example.org": {"logins": 0}},
            "notes": [{"text": f"call {MAIL}"}, {"text": "nothing"}, {"text": "nothing"}],
            "balance": BALANCE,
            "exact": np.float64(BALANCE),
            "history": np.array([1.0, BALANCE]),
            "raw": MAIL.encode(),
        }
        return self._see(), {"mail": MAIL, "pin": PIN}

    def step(self, action: int) -> Any:
        self.n += 1
        customers = self.state["customers"]
        if action == 0:
            customers[0]["iban"] = "GB82WEST12345698765432"
        elif action == 1:
            customers[0]["iban"] = IBAN
        elif action == 2:
            customers.append(dict(customers[0], customer_id="C-3", mail=MAIL.upper()))
            self.state["notes"].pop(0)
            self.state["by_mail"][f"x+{MAIL}"] = {"logins": 1}
        else:
            self.state["notes"].append({"text": f"wrote to {MAIL}"})
        return self._see(), BALANCE if action == 3 else 0.0, self.n == 4, False, {"mail": MAIL}

    def _see(self) -> dict[str, Any]:
        return {"mail": MAIL, "balance": np.array([BALANCE]), "n": self.n}


def record(store: Any = None, case_id: str = "customers") -> EpisodeEvidence:
    """One episode: an account changed and put back, rows added and dropped, a note written."""
    made: list[Customers] = []

    def factory() -> Customers:
        made.append(Customers())
        return made[-1]

    def interact(env: Any, observation: Any, info: Any) -> str:
        for action in (0, 1, 2, 3):
            env.step(action)
        return f"I wrote to {MAIL}."

    return capture_episode(
        factory,
        interact,
        case=EvalCase(f"Write to {MAIL}.", case_id=case_id),
        environment_id="customers-v1",
        observer_id="state",
        observe=lambda: copy.deepcopy(made[-1].state),
        seed=1,
        max_steps=10,
        store=store,
    )
