"""The webhook's certificates: a CA and serving certificate that renew themselves without a refused pod.

The core (`material`, `phases`, `lease`) decides from values; `issue` makes keys; `rotation` is the loop that looks,
asks the core and does; `cluster`, `dial` and `keep` do the I/O.
"""
