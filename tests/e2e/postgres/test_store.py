"""What every store of conversations promises, asked of PostgreSQL."""

from tests.store.test_conformance import *  # noqa: F403  (the suite; only the fixtures differ)
