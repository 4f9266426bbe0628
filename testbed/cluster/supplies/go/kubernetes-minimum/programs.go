//go:build programs

// Package programs names what this module builds: the oldest API server that the manifests and policies are for.
package programs

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
