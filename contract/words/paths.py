"""Where files lie, in the container and on the node.

Everything on the node is under `/var/lib`, which survives a reboot: the kubelet does not allocate again after one.
"""

# In the container.
CONTAINER_HOOK_FOLDER = "/usr/lib/nvshare"
CONTAINER_HOOK = "/usr/lib/nvshare/libnvshare.so"
CONTAINER_SOCKETS = "/var/run/nvshare"
CONTAINER_OWN_SOCKET = "/var/run/nvshare/mine/scheduler.sock"
CONTAINER_PRELOAD_FILE = "/etc/ld.so.preload"

# On the node.
NODE_ROOT = "/var/lib/nvshare"
NODE_HOOK_FOLDER = "/var/lib/nvshare/hook"
NODE_HOOK = "/var/lib/nvshare/hook/libnvshare.so"
NODE_PRELOAD_FILE = "/var/lib/nvshare/hook/ld.so.preload"
NODE_SOCKETS = "/var/lib/nvshare/sockets"
NODE_ALLOCATIONS = "/var/lib/nvshare/allocations"
NODE_ADMIN_FOLDER = "/var/run/nvshare-admin"
NODE_CONTROL_SOCKET = "/var/run/nvshare-admin/control.sock"

# In the device plugin's own container.
DEVICE_PLUGIN_HEALTH_SOCKET = "/tmp/nvshare-device-plugin-health.sock"

# Names within those folders.
OWN_FOLDER = "mine"
SOCKET_NAME = "scheduler.sock"
ALLOCATION_FILE = "allocation.json"
BOUND_FILE = "bound-"
"""In an allocation's folder, followed by the number of its binding.  A CDI spec of an older binding mounts a file that
is gone, so no container can start with it."""

# The kubelet's side.
KUBELET_PLUGINS = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"
POD_RESOURCES_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
CDI_SPECS = "/var/run/cdi"
STATIC_CDI_SPECS = "/etc/cdi"
"""Where specs lie that stay through a reboot.  A spec in the other folder comes before one of its name here."""

# Folders that no pod sharing GPUs may reach: each, anything in it, any parent of it (`/run` is `/var/run`).
GUARDED_FOLDERS = (
    NODE_ROOT,
    NODE_ADMIN_FOLDER,
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/run/containerd",
    "/var/lib/crio",
    "/var/run/crio",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/run/docker.sock",
    "/var/run/docker",
    "/var/run/cri-dockerd.sock",
    "/var/run/k3s",
    "/var/lib/rancher",
    "/etc/rancher",
    "/var/run/k0s",
    "/var/lib/k0s",
    "/var/snap/microk8s",
    "/etc/kubernetes",  # the administrator's kubeconfig, the static pods
    "/var/run/cdi",
    "/etc/cdi",
    "/dev",
    "/proc",  # holds the node's root again, once for each process: /proc/self/root
)
UNGUARDED_FOLDERS = ("/dev/shm", "/dev/infiniband")
