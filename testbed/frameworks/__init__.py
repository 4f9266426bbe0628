"""Frameworks that others wrote as judges: unmodified wheels on the software GPU, under hook and daemon."""
