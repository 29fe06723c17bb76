"""Forks processes of tests from one with all imports: a new interpreter takes longer to start than most tests."""

import multiprocessing

PRELOADED = [
    "pytest",
    "tests.support.isolated_run",
    "tests.support.server_stores",
    "tests.support.play",
    "tests.support.fault_registry",
    "tests.support.races",
    "tests.support.feed_races",
]
"""The modules that a fork has imported."""

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(PRELOADED)
