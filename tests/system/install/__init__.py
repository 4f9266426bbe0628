"""Manifests, installation and the whole story on a real node."""
