"""The scheduler of a node: which container uses which GPU now.

`core`, `policies` and `protocol` take values and a clock and return orders; they do no I/O.  `server`, `control` and
`identity` carry the orders out on the `eventloop`.  `observer` and `nvsharectl` are programs of their own.
"""
