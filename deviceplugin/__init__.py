"""The device plugin: slots of physical GPUs for the kubelet, placed well, through every restart.

Pure cores decide (`inventory`, `placement`, `health`, `allocation`, `lifetime`); shells speak gRPC, NVML, files and the
API server.
"""
