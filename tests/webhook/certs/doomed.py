"""`python -m tests.webhook.certs.doomed KUBECONFIG N`: rotates the CA, and kills itself after the Nth step."""

import os
import signal
import sys
import time

from adapters.kubernetes.client import connect
from tests.webhook.certs.scene import QUICK
from webhook.certs.cluster import Cluster
from webhook.certs.core.phases import Asked, Step
from webhook.certs.core.rotation import Surroundings, rotate


def main(kubeconfig: str, deadly: int) -> None:
    steps: list[Step] = []

    def die(step: Step) -> None:
        steps.append(step)
        if len(steps) == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = QUICK
    around = Surroundings(sleep=time.sleep, tell=print, done=die)
    rotate(Cluster(connect(kubeconfig), settings, "rotator"), Asked.AUTHORITY, settings, around)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
