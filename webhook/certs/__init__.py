"""The webhook's certificates: a CA and a serving certificate that renew themselves without a refused pod.

`core/` decides from values: `secret`, `phases` and `lease` read and judge, `issue` makes keys, `rotation` is the loop
that looks, asks for one step and does it.  `cluster`, `probe` and `keeper` do the I/O.
"""
