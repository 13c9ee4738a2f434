"""Test-wide settings: hypothesis without a stopwatch (a busy machine is no defect) and with the same examples each run."""

from hypothesis import settings

settings.register_profile("midstream", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("midstream")
