"""What is wrong with a history, which hosts would refuse it, and a repaired copy.

    diagnosis = examine(conversation)
    print(*diagnosis.findings)
    conversation = diagnosis.healed

`read_answer` shows how midstream reads a recorded answer. `hand_offs` judges sample histories of every dialect as every other dialect would receive them.
"""

from .diagnosis import Diagnosis, Finding, Verdict, examine, heal, refusals
from .matrix import SCENES, HandOff, hand_offs, table
from .naive import naive_body, with_raw_ids
from .recorded_answer import RecordedAnswer, read_answer

__all__ = [
    "SCENES",
    "Diagnosis",
    "Finding",
    "HandOff",
    "RecordedAnswer",
    "Verdict",
    "examine",
    "hand_offs",
    "heal",
    "naive_body",
    "read_answer",
    "refusals",
    "table",
    "with_raw_ids",
]
