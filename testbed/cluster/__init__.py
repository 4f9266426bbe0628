"""A real Kubernetes on this machine: `control_plane` (no root) and `node` (root), both from the package registries."""
