"""`make drills`: a thousand processes killed in mid-allocation."""

from tests.drills import Drill, count
from tests.hook.killing import kill_in_mid_allocation


def the_ledger_is_exact() -> str:
    return kill_in_mid_allocation(count(1_000))


DRILLS = [Drill("killed in mid-allocation: the ledger is exact", the_ledger_is_exact)]
