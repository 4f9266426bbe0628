"""Pods that try a way around the rules, and must be refused."""

from contract.words import names, paths
from testbed.cluster.installed import Wish


def mount(path: str) -> Wish:
    volume = {"volumes": [{"name": "mine", "emptyDir": {}}]}
    return Wish(container={"volumeMounts": [{"name": "mine", "mountPath": path}]}, spec=volume)


def key_mounted_at(path: str) -> Wish:
    """Mount a key of a ConfigMap as a file, by its subPath."""
    volume = {"volumes": [{"name": "mine", "configMap": {"name": "any", "optional": True}}]}
    return Wish(container={"volumeMounts": [{"name": "mine", "mountPath": path, "subPath": "mine.so"}]}, spec=volume)


def from_config_map(name: str) -> Wish:
    reference = {"configMapKeyRef": {"name": "any", "key": "any", "optional": True}}
    return Wish(container={"env": [{"name": name, "valueFrom": reference}]})


def host_path(path: str) -> Wish:
    volume = {"volumes": [{"name": "mine", "hostPath": {"path": path}}]}
    return Wish(container={"volumeMounts": [{"name": "mine", "mountPath": "/host"}]}, spec=volume)


def secured(**context: object) -> Wish:
    return Wish(container={"securityContext": context})


REFUSED = {
    "NVIDIA_VISIBLE_DEVICES=all": Wish(env={names.ENV_VISIBLE_DEVICES: "all"}),
    "NVSHARE_MODE set by hand": Wish(env={names.ENV_MODE: "gang"}),
    "LD_AUDIT": Wish(env={"LD_AUDIT": "/tmp/mine.so"}),
    "GLIBC_TUNABLES": Wish(env={"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=0"}),
    "LD_PRELOAD out of a ConfigMap": from_config_map("LD_PRELOAD"),
    "visible devices out of a ConfigMap": from_config_map(names.ENV_VISIBLE_DEVICES),
    "a mount over the hook's folder": mount(paths.CONTAINER_HOOK_FOLDER),
    "a mount over the hook's folder, spelled with ..": mount("/usr/lib/x/../nvshare"),
    "a mount over the sockets, spelled with //": mount("//var//run/nvshare"),
    "a mount over the sockets, spelled /run": mount("/run/nvshare"),
    "a mount over a parent": mount("/usr/lib"),
    "a mount below": mount("/var/run/nvshare/mine"),
    "a mount over the loader's file": mount(paths.CONTAINER_PRELOAD_FILE),
    "a mount over the loader's file, spelled with ..": mount("/etc/x/..//ld.so.preload"),
    "the file for last words over the hook": Wish(container={"terminationMessagePath": paths.CONTAINER_HOOK}),
    "the file for last words over the loader's file": Wish(container={"terminationMessagePath": "/etc//ld.so.preload"}),
    "the file for last words over the hook, by /proc": Wish(
        container={"terminationMessagePath": f"/proc/self/root{paths.CONTAINER_HOOK}"}
    ),
    "a mount over the hook's folder, by /proc/self/root": mount(f"/proc/self/root{paths.CONTAINER_HOOK_FOLDER}"),
    "a mount over the hook's folder, by /proc/thread-self": mount(
        f"/proc/thread-self/root{paths.CONTAINER_HOOK_FOLDER}"
    ),
    "a mount over the hook's folder, by /x/../proc": mount(f"/x/../proc/self/root{paths.CONTAINER_HOOK_FOLDER}"),
    "a key of a ConfigMap over the hook, by /proc/1/root": key_mounted_at(f"/proc/1/root{paths.CONTAINER_HOOK}"),
    "hostPath of the device nodes": host_path("/dev"),
    "hostPath of the device nodes, spelled //dev/.": host_path("//dev/."),
    "hostPath of our folder": host_path("/var/lib/nvshare/allocations"),
    "hostPath of the root": host_path("/"),
    "hostPath of containerd's socket": host_path("/run/containerd/containerd.sock"),
    "hostPath of k3s's own containerd": host_path("/run/k3s/containerd/containerd.sock"),
    "hostPath of the kubelet's folder": host_path("/var/lib/kubelet/device-plugins"),
    "privileged": secured(privileged=True),
    "CAP_SYS_ADMIN": secured(capabilities={"add": ["SYS_ADMIN"]}),
    "CAP_DAC_READ_SEARCH": secured(capabilities={"add": ["DAC_READ_SEARCH"]}),
    "hostPID": Wish(spec={"hostPID": True}),
    "hostIPC": Wish(spec={"hostIPC": True}),
    "nodeName": Wish(spec={"nodeName": "node-0"}),
    "the scheduler's own annotation, forged": Wish(annotations={"nvshare.com/no-such-key": "x"}),
}
OPTED_IN = {"nvshare.com/injection": "enabled"}
