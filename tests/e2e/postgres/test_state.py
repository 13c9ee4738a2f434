"""What every state of the gateway promises, asked of PostgreSQL."""

from tests.gateway.test_state import *  # noqa: F403  (the suite; only the fixtures differ)
