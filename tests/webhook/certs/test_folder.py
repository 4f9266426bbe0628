"""The folder in memory that holds a running server's key: it goes with its process, however that ends."""

import subprocess
import sys
from pathlib import Path

from webhook.certs.serving import own_folder

_MAKE = """
import os, signal, sys
from pathlib import Path
from webhook.certs.serving import own_folder
folder = own_folder(Path(sys.argv[1]))
(folder / "tls.key").write_text("secret")
if os.fork() == 0:
    sys.exit()  # a worker
os.wait()
assert folder.is_dir()
print(folder, flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _made_by_another(parent: Path, how: str) -> Path:
    command = [sys.executable, "-c", _MAKE, str(parent), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip(), done.stderr
    return Path(done.stdout.strip())


def test_it_goes_with_its_process_but_not_with_a_worker(tmp_path: Path) -> None:
    assert not _made_by_another(tmp_path, "ends").exists()


def test_that_of_a_process_that_was_killed_goes_with_the_next_start_and_a_living_ones_stays(tmp_path: Path) -> None:
    living, left = own_folder(tmp_path), _made_by_another(tmp_path, "killed")
    assert left.is_dir()

    mine = own_folder(tmp_path)

    assert (living.is_dir(), left.exists(), mine.is_dir()) == (True, False, True)
