"""Vectors of other engines' Kimi parsers where midstream does otherwise on purpose, by id: why."""

EXCEPTIONS: dict[str, str] = {}
