"""The names that Kubernetes and containers see: resource, labels, annotations, environment, volumes, ports.

Each word is one constant.  `grammar.py` says which values a word may take, and `paths.py` where files lie.
"""

DOMAIN = "nvshare.com"
RESOURCE = "nvshare.com/gpu"
"""One unit is one vGPU: one slot on one physical GPU."""
SLOTS_PER_GPU = 10

SYSTEM_NAMESPACE = "nvshare-system"
WEBHOOK_PORT = 8443
METRICS_PORT = 9090

# Labels and annotations on a Namespace.
INJECTION_LABEL = "nvshare.com/injection"
ON_MULTI_GPU = "nvshare.com/on-multi-gpu"
ALLOW = "nvshare.com/allow"
MAX_GPUS = "nvshare.com/max-gpus"
MAX_MEMORY = "nvshare.com/max-memory"
MAX_WEIGHT = "nvshare.com/max-weight"
MAX_QUANTUM = "nvshare.com/max-quantum"
DEFAULT_MEMORY = "nvshare.com/default-memory"
DEFAULT_WEIGHT = "nvshare.com/default-weight"

# Annotations on a Pod; the first one on a Namespace too, as the default of its pods.
MULTI_GPU = "nvshare.com/multi-gpu"
MEMORY = "nvshare.com/memory"
QUANTUM = "nvshare.com/quantum"
WEIGHT = "nvshare.com/weight"
ALLOCATION = "nvshare.com/allocation"

# The label and the annotations of a Pod that only the webhook writes.
VGPU_LABEL = "nvshare.com/vgpu"
"""It marks the pods with a vGPU, so that a policy need not look at other pods."""
VGPU_LABEL_VALUE = "true"
INJECTED = "nvshare.com/injected"
REDUCED_FROM = "nvshare.com/reduced-from"

# Kubernetes' own, on the API's copy of a static pod: the UID that the kubelet and the control groups have for it.
CONFIG_MIRROR = "kubernetes.io/config.mirror"

# The environment of a container.
ENV_PRELOAD = "LD_PRELOAD"
ENV_MODE = "NVSHARE_MODE"
ENV_LOG = "NVSHARE_LOG"
ENV_ON_LOSS = "NVSHARE_ON_LOSS"
ENV_SOCKETS = "NVSHARE_SOCKETS"
ENV_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"

# Volumes that the webhook adds to a pod.
HOOK_VOLUME = "nvshare-hook"
SOCKETS_VOLUME = "nvshare-sockets"

# The vendor and class of our CDI devices: `nvshare.com/vgpu=<allocation key>`.
CDI_KIND = "nvshare.com/vgpu"
