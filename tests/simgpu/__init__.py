"""The software GPU's tests, and what other rooms read of it: `record` (who executed when) and `paths`."""
