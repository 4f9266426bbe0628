"""`python -m testbed.frameworks`: the table of all steps (`make frameworks`).  `lock` writes the lock files."""

import argparse
import sys
import time

from testbed.frameworks import standins, wheels
from testbed.frameworks.errors import FrameworksError
from testbed.frameworks.hardware import Cards, Hardware, SoftwareGpus
from testbed.frameworks.running import run_step
from testbed.frameworks.showing import HEAD, lines
from testbed.frameworks.table import STEPS
from testbed.frameworks.verdict import Setting


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make frameworks", description="Frameworks on the software GPU.")
    parser.add_argument("what", nargs="?", choices=("table", "lock"), default="table")
    parser.add_argument("--only", default="", help="run the steps whose names contain one of these, a,b,c")
    parser.add_argument("--said", action="store_true", help="show what a failed step's processes wrote")
    parser.add_argument("--card", action="store_true", help="on real cards, with NVIDIA's own libraries")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.what == "lock":
            wheels.lock()
            return 0
        return table(prepare(is_card=chosen.card), chosen.only, is_said=chosen.said)
    except FrameworksError as error:
        print(f"frameworks: {error}\n  fix: {error.fix}", file=sys.stderr)
        return 1


def prepare(*, is_card: bool) -> Hardware:
    """Return the GPUs with what runs on them; fetch and build what is not in the cache."""
    if is_card:
        return Cards(wheels.install(print, wheels.CARD_LOCKS))
    found = wheels.install(print)
    return SoftwareGpus(found, standins.build(found.that_need_libraries(), found.headers, say=print))


def table(hardware: Hardware, only: str, *, is_said: bool) -> int:
    began = time.monotonic()
    failed = 0
    print(HEAD, flush=True)
    wanted = only.lower().split(",")
    for step in (step for step in STEPS if any(each in step.name.lower() for each in wanted)):
        result = run_step(hardware, step)
        print("\n".join(lines(result)), flush=True)
        if result.faults():
            failed += 1
            if is_said:
                print("\n".join(f"--- {setting.value}\n{result.runs[setting].said}" for setting in Setting))
    print(f"\n{failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
