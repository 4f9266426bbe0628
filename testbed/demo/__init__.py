"""`make demo`: the main job in a minute, on any machine.

It needs no root and no Kubernetes.  The GPU is software; everything else is real.  `drawing` draws, `local_node` runs a
pod's containers as local processes, `admission` talks to the webhook, `story` tells.
"""
