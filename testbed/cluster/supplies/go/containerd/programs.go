//go:build programs

// Package programs names what this module builds, so that `go mod tidy` keeps what they need.
// Nothing here is compiled: Python asks for each program by its path (testbed/cluster/pins.py).
package programs

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
