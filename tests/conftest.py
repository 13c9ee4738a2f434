"""Test-wide settings: hypothesis without a stopwatch (a busy machine is no defect) and with the same examples each run; a
limit of time for what hangs."""

from hypothesis import settings

from .event_loops import each_loop
from .time_limit import pytest_configure, pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown

__all__ = ["each_loop", "pytest_configure", "pytest_runtest_call", "pytest_runtest_setup", "pytest_runtest_teardown"]

settings.register_profile("midstream", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("midstream")
