"""Test-wide settings: hypothesis without a stopwatch (a busy machine is no defect) and with the same examples each run; a
limit of time for what hangs; what is left to the long run."""

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from .event_loops import each_loop
from .long_run import pytest_collection_modifyitems
from .time_limit import pytest_configure, pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown

__all__ = [
    "each_loop",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_call",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
]

settings.register_profile("midstream", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("midstream")

# No test may write into the keyring of whoever runs it, nor find one that another test has defined.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"

# The background job of a shell ignores SIGINT and hands that down; the commands that tests start must hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Half as many again as there are cores: a third of the time a test waits for a terminal, a server or a timeout."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + max(1, cores // 2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()  # what is collected here stays; to look for garbage among it is a seventh of the work
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    # More than ten thousand collected cases are no garbage: without this, each `gc.collect` of a test walks over all of them.
    gc.collect()
    gc.freeze()
