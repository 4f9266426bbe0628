"""The oldest Kubernetes that docs/install.md names: its API server takes the manifests, and its policies decide."""

from collections.abc import Iterator

import pytest
import yaml

from testbed.cluster import pins
from testbed.cluster.errors import MissingError
from testbed.cluster.installed import pod
from testbed.cluster.kubernetes.control_plane import ControlPlane, control_plane
from testbed.cluster.machine.processes import wait_until
from testbed.cluster.supplies import build
from tests.plugins.kubernetes import unavailable
from tests.system.manifests.kustomized import ROOT

# the first run on a machine builds that API server, beside other tests, at a low priority
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200)]
OLDEST = "1.30.14"
MODULE = pins.Module(
    folder="kubernetes-minimum",
    version=OLDEST,
    programs=(pins.Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),),
    stamps=(
        f"k8s.io/component-base/version.gitVersion=v{OLDEST}",
        "k8s.io/component-base/version.gitMajor=1",
        "k8s.io/component-base/version.gitMinor=30",
    ),
)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("oldest")
    try:
        newest, old = build.programs(pins.CONTROL_PLANE, say=print), build.programs(MODULE, say=print)
        for program, home in (("etcd", newest), ("kubectl", newest), ("kube-apiserver", old)):
            (folder / program).symlink_to(home / program)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBEBUILDER_ASSETS", str(folder))
            with control_plane() as plane:
                yield plane
    except MissingError as error:
        unavailable(error)


@pytest.fixture(scope="module")
def installed(oldest: ControlPlane) -> ControlPlane:
    said = oldest.kubectl("apply", "--validate=strict", "-k", str(ROOT / "base"), check=False)
    assert "error" not in said.lower()
    return oldest


def test_it_is_the_version_that_the_docs_name(oldest: ControlPlane) -> None:
    assert f'"gitVersion": "v{OLDEST}"' in oldest.kubectl("get", "--raw", "/version")
    assert "**Kubernetes 1.30 or newer**" in (ROOT.parent / "docs" / "install.md").read_text()


def test_its_policies_refuse_a_vgpu_in_a_namespace_that_has_not_opted_in(installed: ControlPlane) -> None:
    namespace = installed.create_namespace("plain")
    wanted = yaml.safe_dump(pod("one"))

    def said() -> str:
        return installed.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=wanted, check=False)

    # a policy decides some seconds after it was created
    wait_until(lambda: "created" not in said(), what="the policies are in force", seconds=60)
    assert "nvshare.com/injection" in said()


def test_a_plain_pod_is_not_touched(installed: ControlPlane) -> None:
    namespace = installed.create_namespace("opted-in", labels={"nvshare.com/injection": "enabled"})
    plain = pod("plain")
    del plain["spec"]["containers"][0]["resources"]
    said = installed.kubectl(
        "create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(plain), check=False
    )

    assert "created" in said


def test_a_namespace_with_an_unknown_value_is_refused(installed: ControlPlane) -> None:
    wrong = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "w", "labels": {"nvshare.com/injection": "on"}},
    }
    said = installed.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(wrong), check=False)

    assert "enabled or warn" in said
