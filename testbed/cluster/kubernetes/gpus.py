"""Pods for a node with software GPUs: the device plugin from the project's image, and a pod that computes.

The rule: plain Kubernetes objects come out and nothing is started.  The objects are the smallest that show the chain
from the kubelet to a kernel's time.  The real ones are in manifests/.
"""

from typing import Any

from contract.words import names, paths
from testbed.cluster.supplies.image import Target

FOLDER = "/var/lib/simgpu"
"""A folder of the node: it holds the file that all processes on its GPUs share."""
FILE = f"{FOLDER}/gpus"

REPORT = """
import sys
from cuda.bindings import driver

def call(function, *arguments):
    error, *values = function(*arguments)
    if error != driver.CUresult.CUDA_SUCCESS:
        sys.exit(f"{function.__name__}: {error.name}")
    return values[0] if len(values) == 1 else values

call(driver.cuInit, 0)
device = call(driver.cuDeviceGet, 0)
call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))
kernel = call(driver.cuModuleGetFunction, call(driver.cuModuleLoadData, b"SGPU"), b"train_5ms")
begin, end = (call(driver.cuEventCreate, 0) for _ in range(2))
launch = (driver.cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
call(*launch)  # the first launch waits for its turn
call(driver.cuEventRecord, begin, 0)
call(*launch)
call(driver.cuEventRecord, end, 0)
call(driver.cuEventSynchronize, end)
digits = bytes(call(driver.cuDeviceGetUuid, device).bytes).hex()
uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
count = call(driver.cuDeviceGetCount)
print(f"GPU-{uuid} is one of {count}; the kernel took {call(driver.cuEventElapsedTime, begin, end):.1f} ms", flush=True)
"""
"""The program of a pod, with NVIDIA's own bindings: it prints the GPU's UUID and how long a kernel of 5 ms took."""


_OTHER_UUIDS_ON_EVERY_NODE = {
    "name": "SIMGPU_UUID_SEED",
    "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
}


def environment(**variables: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def host_folders(*folders: str) -> dict[str, list[dict[str, Any]]]:
    """Return `volumes` and `volumeMounts` that show folders of the node at the same path in a container."""
    numbered = [(f"folder-{number}", folder) for number, folder in enumerate(folders)]
    return {
        "volumes": [
            {"name": name, "hostPath": {"path": folder, "type": "DirectoryOrCreate"}} for name, folder in numbered
        ],
        "volumeMounts": [{"name": name, "mountPath": folder} for name, folder in numbered],
    }


def device_plugin(*, devices: str) -> dict[str, Any]:
    """Build the plugin's DaemonSet, with the software's NVML instead of NVIDIA's, and the scheduler beside it."""
    pod_resources = paths.POD_RESOURCES_SOCKET.rpartition("/")[0]
    ours = (paths.NODE_ROOT, paths.NODE_ADMIN_FOLDER, FOLDER)
    folders = host_folders(*ours, paths.CDI_SPECS, paths.KUBELET_PLUGINS, pod_resources)
    common = {
        "image": Target.SIMGPU.value,
        "imagePullPolicy": "Never",
        "env": [*environment(SIMGPU_FILE=FILE, SIMGPU_DEVICES=devices), _OTHER_UUIDS_ON_EVERY_NODE],
        "securityContext": {"runAsUser": 0, "runAsGroup": 0},
        "volumeMounts": folders["volumeMounts"],
    }
    plugin = ["nvshare-device-plugin", "serve", "--inject", "cdi", "--metrics-port", "off"]  # the pod's port is one
    containers = [
        {"name": "plugin", "command": plugin, **common},
        {"name": "scheduler", "command": ["nvshare-schedulerd"], **common},
    ]
    labels = {"app": "device-plugin"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, "volumes": folders["volumes"]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "device-plugin", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def computing_pod(name: str, *, node: str | None = None, gpus: int = 1) -> dict[str, Any]:
    """Build a pod that reports its GPU and a kernel's time, and then stays for `kubectl exec`."""
    folders = host_folders(FOLDER)
    container = {
        "name": "main",
        "image": Target.SIMGPU.value,
        "imagePullPolicy": "Never",
        "command": ["python", "-c", f"{REPORT}\nimport signal; signal.pause()"],
        "env": environment(SIMGPU_FILE=FILE),
        "resources": {"limits": {names.RESOURCE: str(gpus)}},
        "volumeMounts": folders["volumeMounts"],
    }
    where = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    spec = {"containers": [container], "volumes": folders["volumes"], "terminationGracePeriodSeconds": 0, **where}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**spec, "restartPolicy": "Never"}}
