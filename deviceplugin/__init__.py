"""The device plugin: it offers slots of physical GPUs to the kubelet and places them well, through every restart.

`core/` decides and does no I/O.  The other folders speak gRPC, NVML, files and the API server.
"""
