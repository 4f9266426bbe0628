"""All checks of `doctor`, in the order of the report: from the node up to what pods get."""

from collections.abc import Callable, Iterator

from deviceplugin.core.doctor import gpu_checks, node_checks, runtime_checks
from deviceplugin.core.doctor.facts import Facts
from deviceplugin.core.doctor.findings import Finding

Check = Callable[[Facts], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (
    node_checks.check_kernel,
    gpu_checks.check_nvml,
    gpu_checks.check_gpus,
    gpu_checks.check_device_nodes,
    runtime_checks.check_runtime,
    runtime_checks.check_runtime_config,
    runtime_checks.check_cdi_specs,
    runtime_checks.check_device_source,
    runtime_checks.check_runtime_classes,
    node_checks.check_kubelet,
    node_checks.check_folders,
    node_checks.check_hook,
    node_checks.check_scheduler,
    gpu_checks.check_foreign,
    node_checks.check_slots,
)


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Return the findings of every check."""
    return tuple(finding for check in CHECKS for finding in check(facts))
