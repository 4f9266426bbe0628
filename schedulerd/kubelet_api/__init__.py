"""The kubelet's pod-resources API: `podresources_v1.proto` is ours by the published description, the rest is generated.

Package and file have names of their own, so that two rooms' copies never meet in one process; on the wire only the
method's path and the fields' numbers count.
"""
