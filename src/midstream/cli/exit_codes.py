"""How the program ends: 0 ok, 1 failed for good, 2 used wrongly, 75 worth another try, 130 interrupted by the user.

75 is EX_TEMPFAIL: rate limits, overload, timeouts, a broken stream. A script may simply run the same command again.
"""

from __future__ import annotations

from ..core.errors import MidstreamError, UnknownModel, UnknownToolFormat

OK = 0
FAILED = 1
USAGE = 2
RETRY = 75
INTERRUPTED = 130
TERMINATED = 143


def code_for(error: MidstreamError) -> int:
    """The code for an error that nobody could mend."""
    if isinstance(error, UnknownModel | UnknownToolFormat):
        return USAGE
    return RETRY if error.retryable else FAILED
