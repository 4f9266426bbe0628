"""The observer as a child: what happens when it cannot be started."""

import subprocess
import sys

CODE = """
import os, resource, sys
from schedulerd.eventloop.loop import Loop
from schedulerd.eventloop.child_process import Companion
loop = Loop()
companion = Companion(loop, ["--help"])
free = os.open("/dev/null", os.O_RDONLY); os.close(free)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (free + int(sys.argv[1]), hard))
companion.start()
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
while companion._process is None:
    loop.turn()
print("started")
companion.end()
"""


def test_an_observer_that_cannot_be_started_is_tried_again_and_costs_nobody_a_turn():
    for room in (0, 2, 4):  # nothing can be opened; not all pipes of the start; everything
        run = subprocess.run([sys.executable, "-c", CODE, str(room)], capture_output=True, text=True, timeout=30)
        assert (run.returncode, run.stdout.splitlines()[-1]) == (0, "started"), run.stderr
        assert ("cannot be started" in run.stderr) == (room < 3)
