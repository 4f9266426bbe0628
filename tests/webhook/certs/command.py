"""`nvshare-webhook certs` as a process, and a kubeconfig of a server that is not there."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("nvshare-webhook")
NOBODY = """
apiVersion: v1
kind: Config
clusters: [{name: n, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: n, user: {}}]
contexts: [{name: n, context: {cluster: n, user: n}}]
current-context: n
"""


def certs(*words: str, kubeconfig: Path | str = "/nowhere") -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, "certs", *words, "--kubeconfig", kubeconfig]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
