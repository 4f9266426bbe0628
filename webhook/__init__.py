"""Admission: every pod that asks for a vGPU is allowed, completed or refused, with the reason.

`admission/`, `apiserver/` and `certs/core/` are pure: values go in, values come out.  `serving/`, `namespaces/`,
`certs/` and `offline/` do the I/O.
"""

VERSION = "0.1.0"
