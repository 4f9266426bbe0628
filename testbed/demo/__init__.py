"""`make demo`: the main job in a minute, on any machine.

No root, no Kubernetes; the GPU is software, the rest is real.  `drawing` draws, `local_node` runs a pod's containers
as local processes, `admission` talks to the webhook, `story` tells.
"""
