"""The drill of this folder: the whole table of the frameworks."""
