"""What a step tells: facts that must be the same hooked and bare, and the seconds of its own work.

A step runs under the frameworks' Python, so this module imports nothing of ours.
"""

import json
import sys
import time
from collections.abc import Callable

PREFIX = "STEP "
Facts = dict[str, object]


def tell(work: Callable[[], Facts], prepare: Callable[[], object] = lambda: None) -> None:
    """Run `prepare`, then measure `work`, and print its facts; an exception that escapes is a fact too.

    Work in other processes measures itself: its `seconds` stand among the facts.
    """
    seconds: object = 0.0
    try:
        prepare()
        began = time.perf_counter()
        facts = work()
        seconds = facts.pop("seconds", time.perf_counter() - began)
    except Exception as error:  # noqa: BLE001  the same exception hooked and bare is what is compared
        facts = {"raised": type(error).__name__, "said": str(error).splitlines()[0][:200]}
        import traceback

        traceback.print_exc()
    print(PREFIX + json.dumps({"facts": facts, "seconds": seconds}), flush=True)
    sys.stdout.flush()


def raised(action: Callable[[], object]) -> str:
    """Return the name of the exception that the action raises, or "nothing"."""
    try:
        action()
    except Exception as error:  # noqa: BLE001  the name is the fact
        return type(error).__name__
    return "nothing"
