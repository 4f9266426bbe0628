"""Who may use which GPU now: the scheduler daemon of a node.

Cores (`turns`, `grants`, `queue`, `quantum`, `jam`, `policies`, `wire`, `desk`) take values and a clock and return
orders; shells (`server`, `gates`, `control`, `observer/`) do what they say.
"""
