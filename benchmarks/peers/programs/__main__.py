"""Runs a queue's program by its name, in the environment that has the queue; see `harness`."""

import importlib
import sys

from benchmarks.peers.programs import harness

if __name__ == "__main__":
    name, role, *words = sys.argv[1:]
    harness.main(importlib.import_module(f"benchmarks.peers.programs.{name}"), role, words)
