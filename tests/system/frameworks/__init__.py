"""The frameworks of testbed/frameworks: what judges them is judged here, and a small part of them runs."""
