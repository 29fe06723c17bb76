"""Processes of tests, each a fork of one that has imported everything: to start an interpreter and import it anew takes
longer than most tests."""

import multiprocessing

PRELOADED = [
    "pytest",
    "tests.support.apart",
    "tests.support.networked",
    "tests.support.play",
    "tests.support.planting",
    "tests.support.racing",
    "tests.support.feed_racing",
]
"""What a fork finds imported."""

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(PRELOADED)
