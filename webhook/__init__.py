"""Admission: decides, completes and explains every pod that asks for a vGPU.

Cores (`pod`, `namespace_policy`, `rules`, `injection`, `decision`, `review`) take values and return values; shells
(`app`, `server`, `namespaces`, `offline`, `audit`) do the I/O.
"""

VERSION = "0.1.0"
