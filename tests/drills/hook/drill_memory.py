"""`make drills`: a thousand processes are killed in mid-allocation."""

from tests.hook.support.killing import kill_in_mid_allocation
from tests.runners.drills import Drill, count


def the_ledger_is_exact() -> str:
    return kill_in_mid_allocation(count(1_000))


DRILLS = [Drill("killed in mid-allocation: the ledger is exact", the_ledger_is_exact)]
