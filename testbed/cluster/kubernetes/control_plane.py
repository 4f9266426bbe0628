"""The control plane: etcd and the API server, and on request the scheduler and the controller manager.

It needs no root.  The rule: several run side by side on one machine.  Each has its own ports, CA and data, and is gone
when its `with` ends.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import urllib3
import yaml

from testbed.cluster import pins
from testbed.cluster.cache import Say
from testbed.cluster.errors import BrokenError
from testbed.cluster.kubernetes.pki import Authority, Pair
from testbed.cluster.machine import leftovers, runs
from testbed.cluster.machine.network import Addresses
from testbed.cluster.machine.processes import MARK, Process, free_ports, wait_until
from testbed.cluster.machine.runs import Run
from testbed.cluster.supplies.build import control_plane_programs, programs

ADMIN = "guard-admin"
_READY_SECONDS = 120.0
_KUBECTL_SECONDS = 200.0
_CHANCES = 3


def quiet(_: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of an API server in a test; the defaults are Kubernetes' own."""

    enable_admission: Sequence[str] = ()
    """Admission plugins beyond the default ones."""
    disable_admission: Sequence[str] = ()
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Sequence[str] = ()
    """API groups to switch on, as in `resource.k8s.io/v1beta1=true`."""
    audit: bool = False
    """Write every request, with its bodies, to `ControlPlane.audit_events()`."""
    arguments: Sequence[str] = ()
    """Further arguments of kube-apiserver, as they are."""
    controllers: bool = False
    """kube-controller-manager too: service accounts, namespaces' deletion, Deployments, DaemonSets, Jobs."""
    scheduler: bool = False
    scheduler_config: Mapping[str, Any] | None = None
    """A KubeSchedulerConfiguration (profiles, extenders); the connection is filled in."""


class ControlPlane:
    """A running API server, and the ways to talk to it."""

    def __init__(
        self, run: Run, options: Options, *, addresses: Addresses | None = None, stays: bool = False, say: Say = quiet
    ) -> None:
        self.run = run
        self.options = options
        self.addresses = addresses or Addresses()
        """Addresses of nodes, pods and services. On loopback there are only services, and nothing serves them."""
        self.address = addresses.machine if addresses else "127.0.0.1"
        self.authority = Authority(run.folder / "pki")
        self.processes: dict[str, Process] = {}
        self._stays = stays
        self._say = say
        self._programs = control_plane_programs(say=say)
        self._choose_ports()

    # ------------------------------------------------------------------------------------------ talking to it
    @property
    def url(self) -> str:
        return f"https://{self.address}:{self._port}"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the administrator."""
        return self.kubeconfig_for(ADMIN, groups=("system:masters",))

    def kubeconfig_for(self, user: str, *, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig of any user in any groups; RBAC decides what the user may do."""
        path = self.run.folder / f"{user.replace(':', '-').replace('/', '-')}.kubeconfig"
        if not path.exists():
            pair = self.authority.vouch_for(user, groups=groups)
            path.write_text(yaml.safe_dump(_kubeconfig(self.url, self.authority.certificate, pair)))
        return path

    @property
    def anonymous_kubeconfig(self) -> Path:
        """A kubeconfig without a user, for a token (`--token`), which a client certificate would outrank."""
        path = self.run.folder / "anonymous.kubeconfig"
        path.write_text(yaml.safe_dump(_kubeconfig(self.url, self.authority.certificate, None)))
        return path

    def client(self, kubeconfig: Path | None = None) -> kubernetes.client.ApiClient:
        """Return the official Python client, as the administrator or as the kubeconfig's user."""
        connect: Callable[[str], kubernetes.client.ApiClient] = kubernetes.config.new_client_from_config
        return connect(str(kubeconfig or self.kubeconfig))

    @property
    def core(self) -> Any:
        """The core API as the administrator; untyped, since in its own types every field may be None."""
        return kubernetes.client.CoreV1Api(self.client())

    def kubectl(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None, check: bool = True
    ) -> str:
        """Run kubectl and return its output; an error carries kubectl's own words."""
        command = self.kubectl_command(*arguments, kubeconfig=kubeconfig)
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=_KUBECTL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            cause = f"kubectl {' '.join(arguments)} gave no answer within {_KUBECTL_SECONDS:g} s"
            raise BrokenError(cause, "give the command a timeout of its own, to see what it waits for") from error
        if check and done.returncode:
            raise BrokenError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}", "see the answer above")
        return done.stdout if check else done.stdout + done.stderr

    def kubectl_command(self, *arguments: str, kubeconfig: Path | None = None) -> list[str]:
        """Return the command of a kubectl that keeps running, as `port-forward` does."""
        return [str(self._programs / "kubectl"), "--kubeconfig", str(kubeconfig or self.kubeconfig), *arguments]

    def apply(self, *objects: Mapping[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(map(dict, objects)))

    def create_namespace(
        self, name: str, *, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
    ) -> str:
        """Create a namespace in which pods can be created at once.

        It gets the service account that a controller would have made.
        """
        core = self.core
        about = {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
        core.create_namespace({"metadata": about})
        try:
            core.create_namespaced_service_account(name, {"metadata": {"name": "default"}})
        except kubernetes.client.ApiException as error:
            if error.status != 409:  # the controller was faster
                raise
        return name

    def audit_events(self) -> list[dict[str, Any]]:
        """Return every request so far, oldest first (only with `Options(audit=True)`)."""
        path = self.run.logs / "audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    # ------------------------------------------------------------------------------------------ running it
    def start(self) -> None:
        self._say(f"starting etcd and kube-apiserver {pins.KUBERNETES} at {self.url}")
        for chance in range(_CHANCES, 0, -1):
            try:
                self._start_serving()
                break
            except BrokenError as error:
                if chance == 1 or "address already in use" not in error.cause:
                    raise
                self.kill()  # another process took one of our ports first
                self._choose_ports()
        # KUBEBUILDER_ASSETS has neither of these, so they are always our own build
        if self.options.controllers:
            self._add("kube-controller-manager", self._controller_manager(), folder=self._own_programs()).start()
        if self.options.scheduler:
            self._add("kube-scheduler", self._scheduler(), folder=self._own_programs()).start()

    def _choose_ports(self) -> None:
        (self._port,) = free_ports(1, self.address)
        self._etcd_port, self._etcd_peer_port = free_ports(2)

    def _start_serving(self) -> None:
        etcd, server = self._add("etcd", self._etcd()), self._add("kube-apiserver", self._api_server())
        etcd.start()
        server.start()  # it waits for etcd by itself
        wait_until(self.is_ready, what="the API server answers readyz", seconds=_READY_SECONDS, needs=(etcd, server))

    def is_ready(self) -> bool:
        try:
            with urllib3.PoolManager(ca_certs=str(self.authority.certificate), timeout=2, retries=False) as http:
                # it serves before it is ready: post-start hooks (RBAC's roles) make this 500 for some seconds
                return http.request("GET", f"{self.url}/readyz").status == 200
        except (urllib3.exceptions.HTTPError, OSError):
            return False

    def wait_ready(self) -> None:
        """Wait until it serves again after `processes["kube-apiserver"].restart()`."""
        server = self.processes["kube-apiserver"]
        wait_until(self.is_ready, what="the API server answers readyz", seconds=_READY_SECONDS, needs=(server,))

    def kill(self) -> None:
        """End all processes at once: nothing here outlives the run, so nothing needs to be saved."""
        for process in reversed(self.processes.values()):
            process.kill()

    def _own_programs(self) -> Path:
        return programs(pins.CONTROL_PLANE, say=self._say)

    def _add(self, name: str, arguments: Sequence[str], *, folder: Path | None = None) -> Process:
        command = [str((folder or self._programs) / name), *arguments]
        mark = {MARK: self.run.name}
        process = Process(
            name=name, command=command, logs=self.run.logs, environment=mark, dies_with_us=not self._stays
        )
        self.processes[name] = process
        return process

    # ------------------------------------------------------------------------------------------ its programs' arguments
    def _etcd(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._etcd_peer_port))
        return [
            f"--data-dir={self.run.folder / 'etcd'}",
            "--unsafe-no-fsync",  # the data dies with the run
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ]

    def _api_server(self) -> list[str]:
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        hosts = (self.address, "127.0.0.1", self.addresses.first_service, *names)
        serving = self.authority.vouch_for("kube-apiserver", hosts=hosts)
        to_kubelets = self.authority.vouch_for("kube-apiserver-kubelet-client", groups=("system:masters",))
        accounts = self.authority.vouch_for("service-accounts")
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self._port}",
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            # loopback may not be published as the `kubernetes` service's endpoint, and no pod could reach it
            f"--endpoint-reconciler-type={'none' if self.address.startswith('127.') else 'lease'}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.authority.certificate}",
            f"--kubelet-client-certificate={to_kubelets.certificate}",
            f"--kubelet-client-key={to_kubelets.key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={accounts.certificate}",
            f"--service-account-signing-key-file={accounts.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={self.addresses.services}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            *self._wanted(),
        ]

    def _wanted(self) -> Iterator[str]:
        """Yield the arguments that follow from the options."""
        wanted = self.options
        gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in wanted.feature_gates.items())
        for flag, value in (
            ("enable-admission-plugins", ",".join(wanted.enable_admission)),
            ("disable-admission-plugins", ",".join(wanted.disable_admission)),
            ("feature-gates", gates),
            ("runtime-config", ",".join(wanted.runtime_config)),
        ):
            if value:
                yield f"--{flag}={value}"
        if wanted.audit:
            policy = self.run.folder / "audit-policy.yaml"
            policy.write_text(yaml.safe_dump(_AUDIT_POLICY))
            yield f"--audit-policy-file={policy}"
            yield f"--audit-log-path={self.run.logs / 'audit.jsonl'}"
        yield from wanted.arguments

    def _controller_manager(self) -> list[str]:
        accounts = self.authority.vouch_for("service-accounts")
        return [
            f"--kubeconfig={self.kubeconfig_for('system:kube-controller-manager', groups=('system:masters',))}",
            "--secure-port=0",
            "--leader-elect=false",
            f"--root-ca-file={self.authority.certificate}",
            f"--service-account-private-key-file={accounts.key}",
            "--use-service-account-credentials=false",
            f"--cluster-signing-cert-file={self.authority.certificate}",
            f"--cluster-signing-key-file={self.authority.pair.key}",
        ]

    def _scheduler(self) -> list[str]:
        kubeconfig = self.kubeconfig_for("system:kube-scheduler", groups=("system:masters",))
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **(self.options.scheduler_config or {}),
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "leaderElection": {"leaderElect": False},
        }
        path = self.run.folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump(configuration))
        return [f"--config={path}", "--secure-port=0"]


_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "RequestResponse"}],
}


def _kubeconfig(url: str, authority: Path, pair: Pair | None) -> dict[str, Any]:
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)} if pair else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "guard", "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": "guard", "user": user}],
        "contexts": [{"name": "guard", "context": {"cluster": "guard", "user": "guard"}}],
        "current-context": "guard",
    }


@contextmanager
def control_plane(options: Options | None = None, *, say: Say = quiet) -> Iterator[ControlPlane]:
    """Start a control plane of its own on loopback.

    Use it as `with control_plane(Options(audit=True)) as api: api.kubectl(...)`.
    """
    leftovers.remove_abandoned(say=say)
    run = runs.begin()
    plane = None
    try:
        plane = ControlPlane(run, options or Options(), say=say)
        plane.start()
        yield plane
    finally:
        if plane is not None:
            plane.kill()
        leftovers.remove(run)
