"""A real Kubernetes on this machine, from package registries: `control_plane` (no root) and `node` (root)."""
