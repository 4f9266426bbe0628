"""The commands `nvshare-webhook certs rotate` and `certs status`: flags go in, an exit code comes out.

Exit codes: 0 all is well; 1 a certificate needs attention; 2 bad flags or no API server; 3 a rotation stands still.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from webhook.certs import options
from webhook.certs.core.errors import CertificateError

if TYPE_CHECKING:
    from webhook.certs.cluster import Cluster

WHAT = ("due", "leaf", "authority", "nothing")
"""The words of `phases.Asked`, so that `--help` need not load that module; a test holds them equal."""

_STRANGE = (TypeError, ValueError, AttributeError, LookupError)
_STRANGE_ANSWER = 2


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the two commands and their flags; each command sets `run`."""
    rotating = commands.add_parser("rotate", help="renew what is due, and finish what an earlier run began")
    rotating.add_argument(
        "--what",
        choices=WHAT,
        default=WHAT[0],
        help="due: what nears its end (default); leaf, authority: now; nothing: only finish and repair",
    )
    showing = commands.add_parser("status", help="phase, ends, who trusts and who serves what")
    showing.add_argument("--output", choices=["text", "json"], default="text")
    for command in (rotating, showing):
        command.add_argument(
            "--kubeconfig", default="", help="default: KUBECONFIG, else the pod's service account, else ~/.kube/config"
        )
        options.TABLE.add_flags(command)
    rotating.set_defaults(run=_run(_rotate))
    showing.set_defaults(run=_run(_status))


def _run(command: "Callable[[Cluster, argparse.Namespace], int]") -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        from adapters.kubernetes.client import connect
        from webhook.certs.cluster import Cluster

        try:
            return command(
                Cluster(connect(arguments.kubeconfig), options.read_settings(vars(arguments), os.environ)), arguments
            )
        except CertificateError as error:
            print(f"nvshare-webhook certs: {error}", file=sys.stderr)
            return error.exit_code
        except _STRANGE as error:
            print(
                f"nvshare-webhook certs: an object of the cluster has an unexpected form ({error!r}):"
                " look at the Secret, the Lease, the webhook configurations, and any proxy before the API server",
                file=sys.stderr,
            )
            return _STRANGE_ANSWER

    return run


def _rotate(cluster: "Cluster", arguments: argparse.Namespace) -> int:
    from webhook.certs.core.phases import Asked
    from webhook.certs.core.rotation import Surroundings, rotate

    around = Surroundings(sleep=time.sleep, tell=lambda text: print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True))
    rotate(cluster, Asked(arguments.what), cluster.settings, around)
    return 0


def _status(cluster: "Cluster", arguments: argparse.Namespace) -> int:
    from webhook.certs.core.status import report

    now = datetime.now(UTC)
    parts, _ = cluster.read(now=now)
    found = report(parts, cluster.faults(now=now), cluster.see(dial=True), now=now, settings=cluster.settings)
    if arguments.output == "json":
        print(json.dumps(found.as_dict(), indent=2))
    else:
        print("\n".join(found.lines()))
    return 1 if found.troubles else 0
