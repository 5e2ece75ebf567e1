"""`python -m envbench.ledger`: run the worked example and write what came of it to a folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a summary, and return the exit code: 0 only if all was as expected, 2 refused."""
    parser = argparse.ArgumentParser(
        prog="python -m envbench.ledger",
        description="Run the ledger's scenarios on both of its versions and judge every episode.",
    )
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=Path("ledger-outcomes"),
        help="the folder to write (default: %(default)s)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace an earlier run; other files in it stay"
    )
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    chosen = parser.parse_args(arguments)

    from envbench.ledger.run import run
    from envbench.store.errors import StoreError

    try:
        outcomes = run(chosen.output_dir, force=chosen.force)
    except (OSError, StoreError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"stopped; what was recorded until then is in {chosen.output_dir}", file=sys.stderr)
        return 130
    if chosen.json:
        print(json.dumps(outcomes.to_dict(), indent=2))
    else:
        outcomes.print()
    return 0 if outcomes.ok else 1


if __name__ == "__main__":
    sys.exit(main())
