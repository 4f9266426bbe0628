"""The software GPU's tests, and what other rooms read of it: `record` (which process executed when) and `paths`."""
