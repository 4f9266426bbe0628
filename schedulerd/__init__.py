"""The scheduler daemon of a node: it decides which container may use which GPU now.

The pure folders (`core/`, `policies/`, `protocol/`) take values and a clock and return orders.  The other folders read
sockets, files and the cluster, and carry the orders out.
"""
