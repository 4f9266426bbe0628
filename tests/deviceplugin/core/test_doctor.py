"""What `doctor` finds on a node, as a table: facts, the line that they make, the fix in it."""

from dataclasses import replace

import pytest

from deviceplugin.core.doctor.facts import DeviceNode, Facts, ToolkitFacts
from deviceplugin.core.doctor.findings import Finding, Verdict, as_json, has_faults, summary
from deviceplugin.core.doctor.table import CHECKS, examine
from tests.deviceplugin.core.facts import GPU, NODES, UUID, WELL, but

OK, MISSING, WRONG, UNSEEN = Verdict.OK, Verdict.MISSING, Verdict.WRONG, Verdict.UNSEEN
ARM_HEAD = b"\x7fELF" + bytes(14) + b"\xb7\x00"


def nodes(**states: DeviceNode) -> Facts:
    return replace(WELL, on_node=NODES | {name.replace("_", "-"): state for name, state in states.items()})


def from_environment(**runtime: object) -> Facts:
    cdi = replace(WELL.cdi, source="environment", told="GPU devices: environment. No spec.", specs={})
    return replace(WELL, cdi=cdi, runtime=replace(WELL.runtime, **runtime))  # type: ignore[arg-type]


def gpu(**changes: object) -> Facts:
    return but("nvml", gpus=(replace(GPU, **changes),))  # type: ignore[arg-type]


TABLE = [
    ("an old kernel", but("kind", kernel="5.2.20"), "kernel", WRONG, "5.2.20", ""),
    ("another architecture", but("kind", machine="ppc64le"), "architecture", WRONG, "no hook for ppc64le", ""),
    ("no NVML", but("nvml", answers=False, told="Do this.", gpus=()), "nvml", MISSING, "Do this.", ""),
    ("NVML without GPUs", but("nvml", gpus=()), "gpu", MISSING, "finds no GPU", "dmesg"),
    ("MIG", gpu(mig=True), "gpu", WRONG, "MIG mode", f"nvidia-smi -i {UUID} -mig 0"),
    (
        "one process at most",
        but("nvml", compute_modes={UUID: "Exclusive_Process"}),
        *("gpu", WRONG, "compute mode Exclusive_Process", f"nvidia-smi -i {UUID} -c DEFAULT"),
    ),
    ("prohibited", but("nvml", compute_modes={UUID: "Prohibited"}), "gpu", WRONG, "compute mode Prohibited", "-c"),
    ("a card without a number", gpu(minor=None), "gpu", OK, "of unknown number", ""),
    ("no control node", nodes(nvidiactl=DeviceNode.ABSENT), "device-nodes", MISSING, "/dev/nvidiactl", "-c 0"),
    ("no UVM", nodes(nvidia_uvm=DeviceNode.ABSENT), "device-nodes", MISSING, "/dev/nvidia-uvm", "nvidia-modprobe -u"),
    ("no card's node", nodes(nvidia0=DeviceNode.ABSENT), "device-nodes", MISSING, "/dev/nvidia0", "-c 0"),
    ("a file in its place", nodes(nvidia0=DeviceNode.OTHER), "device-nodes", WRONG, "no device", "rm /dev/nvidia0"),
    (
        "a container that has no nodes and does not see the node's",
        replace(WELL, on_node=None, here={}),
        *("device-nodes", UNSEEN, "/dev/nvidiactl is not in this container", "manifests/doctor"),
    ),
    ("nodes here are enough", replace(WELL, on_node=None), "device-nodes", OK, "/dev/nvidia0", ""),
    ("an unknown runtime", but("runtime", name=""), "runtime", UNSEEN, "cannot be read", ""),
    ("an old runtime", but("runtime", takes_cdi=False), "runtime", WRONG, "mounts are used", "containerd 2.0"),
    ("CDI is off", but("runtime", enable_cdi=False), "runtime", WRONG, "switched off", "enable_cdi = true"),
    ("a broken configuration", but("runtime", config_error="x."), "runtime-config", WRONG, "x.", "Correct"),
    ("no configuration", but("runtime", config_file=""), "runtime-config", UNSEEN, "none of the usual", ""),
    (
        "no configuration to be seen",
        replace(but("runtime", config_file=""), sees_node=False),
        *("runtime-config", UNSEEN, "not to be seen", "manifests/doctor"),
    ),
    (
        "CDI reads elsewhere",
        but("runtime", cdi_folders=("/etc/cdi",)),
        *("runtime-config", WRONG, "from /etc/cdi", "cdi_spec_dirs"),
    ),
    ("the same folder", but("runtime", cdi_folders=("/run/cdi/",)), "runtime-config", OK, "default runtime", ""),
    ("a malformed spec", but("cdi", malformed={"/f": "no kind"}), "cdi-specs", WRONG, "/f cannot", "nvidia-ctk"),
    (
        "no spec",
        from_environment(default_handler="nvidia"),
        "cdi-specs",
        OK,
        "There is no CDI spec of NVIDIA's in /etc/cdi",
        "",
    ),
    (
        "a folder that is not mounted",
        replace(but("cdi", folders={"/etc/cdi": False}), sees_node=False),
        *("cdi-specs", UNSEEN, "/etc/cdi is not in this container", "Mount it"),
    ),
    ("no devices", but("cdi", is_trouble=True, told="Pods wait."), "device-source", WRONG, "Pods wait.", ""),
    ("NVIDIA's runtime", from_environment(default_handler="nvidia"), "device-source", OK, "environment", ""),
    (
        "NVIDIA's runtime ignores the variable",
        from_environment(default_handler="nvidia", toolkit=ToolkitFacts("/t", takes_variable=False)),
        *("device-source", WRONG, "/t makes it ignore NVIDIA_VISIBLE_DEVICES", "nvidia-ctk"),
    ),
    (
        "NVIDIA's runtime needs a spec",
        from_environment(default_handler="nvidia", toolkit=ToolkitFacts("/t", mode="cdi")),
        *("device-source", WRONG, "/t sets mode cdi", "nvidia-ctk"),
    ),
    (
        "NVIDIA's runtime reads the variable",
        from_environment(default_handler="nvidia", toolkit=ToolkitFacts("/t")),
        *("device-source", OK, "environment", ""),
    ),
    (
        "nobody brings devices",
        from_environment(default_handler=""),
        *("device-source", WRONG, "The default runtime is runc, so containers get no GPU", "nvidia-ctk"),
    ),
    (
        "perhaps nobody brings devices",
        from_environment(config_file=""),
        *("device-source", UNSEEN, "environment", "Make sure"),
    ),
    ("no class", but("cluster", runtime_classes={}), "runtime-classes", OK, "There is no RuntimeClass", ""),
    ("classes unseen", but("cluster", runtime_classes=None), "runtime-classes", UNSEEN, "cannot be listed", "pod"),
    (
        "a class, and NVML does not answer",
        but("nvml", answers=False, gpus=()),
        *("runtime-classes", OK, "nvidia", "component gpu-operator"),
    ),
    ("no kubelet", but("kubelet", registers=False), "kubelet", MISSING, "no kubelet.sock in /k", "--kubelet-folder"),
    (
        "no pod-resources",
        but("kubelet", pod_resources=False, foreign=None),
        *("kubelet", MISSING, "pod-resources", "--pod-resources-socket"),
    ),
    ("a read-only folder", but("ours", root_is_writable=False), "folders", MISSING, "/var/lib/nvshare", "Mount it"),
    ("no folder of specs", but("ours", cdi_is_writable=False), "folders", MISSING, "/var/run/cdi", "Mount it"),
    ("an image without a hook", but("ours", image_hook=None), "hook", MISSING, "The image has no hook", "--hook-file"),
    ("no hook on the node", but("ours", hook=None), "hook", MISSING, "no hook below", "when it starts"),
    ("nothing names the hook", but("ours", names_hook=False), "hook", MISSING, "ld.so.preload", "when it starts"),
    ("a hook for another architecture", but("ours", hook=ARM_HEAD), "hook", WRONG, "built for aarch64", ""),
    ("a hook that is none", but("ours", hook=b"text"), "hook", WRONG, "no library", "Build"),
    ("no scheduler", but("ours", scheduler_answers=False), "scheduler", MISSING, "/c.sock", "logs"),
    (
        "two plugins for one card",
        but("kubelet", foreign={UUID: "nvidia.com/gpu"}),
        *("other-plugins", WRONG, "nvidia.com/gpu", "--exclude"),
    ),
    ("another's cards", but("kubelet", foreign={"GPU-x": "nvidia.com/gpu"}), "other-plugins", OK, "No other", ""),
    ("no slots", but("cluster", slots=0), "slots", MISSING, "offers no nvshare.com/gpu", "registers"),
    ("no API server", but("cluster", slots=None, trouble="away."), "slots", UNSEEN, "away.", "--node-name"),
]


def test_where_all_is_well_every_line_is_ok() -> None:
    found = examine(WELL)

    assert {finding.verdict for finding in found} == {OK}
    assert not has_faults(found)
    assert len({finding.check for finding in found}) >= len(CHECKS)
    assert summary(found) == f"All is well: {len(found)} OK."


@pytest.mark.parametrize(
    ("facts", "check", "verdict", "text", "fix"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_what_is_broken_makes_a_line_with_its_fix(
    facts: Facts, check: str, verdict: Verdict, text: str, fix: str
) -> None:
    found = examine(facts)
    (finding,) = (each for each in found if each.check == check and each.verdict is verdict and text in each.text)

    assert fix in finding.fix
    assert has_faults(found) is (verdict in (MISSING, WRONG) or any(each.verdict in (MISSING, WRONG) for each in found))


@pytest.mark.parametrize(("facts", "check"), [row[1:3] for row in TABLE], ids=[row[0] for row in TABLE])
def test_one_broken_thing_is_a_fault_of_one_check(facts: Facts, check: str) -> None:
    faults = {finding.check for finding in examine(facts) if finding.verdict in (MISSING, WRONG)}

    assert faults <= ({"nvml", "gpu"} if not facts.nvml.gpus else {check})


def test_every_fault_says_what_to_do() -> None:
    for _, facts, *_ in TABLE:
        for finding in examine(facts):
            if finding.verdict in (MISSING, WRONG) and not finding.fix:
                assert finding.text.rstrip().endswith("."), finding
                assert finding.check in ("nvml", "kernel", "architecture", "hook", "device-source"), finding


def test_a_line_has_verdict_check_text_and_fix() -> None:
    assert Finding("nvml", OK, "It is there.").line() == "OK       nvml            It is there."
    assert Finding("slots", MISSING, "None.", "Do.").line() == "MISSING  slots           None. Fix: Do."
    assert as_json([Finding("slots", MISSING, "None.", "Do.")]) == [
        {"check": "slots", "verdict": "MISSING", "text": "None.", "fix": "Do."}
    ]


def test_the_summary_counts_and_unseen_is_no_fault() -> None:
    unseen, wrong = Finding("a", UNSEEN, ""), Finding("b", WRONG, "")

    assert summary([unseen, Finding("c", OK, "")]) == "All is well: 1 OK, 1 UNSEEN."
    assert summary([wrong, unseen]) == "Something must be done: 1 WRONG, 1 UNSEEN."
    assert (has_faults([unseen]), has_faults([wrong])) == (False, True)
