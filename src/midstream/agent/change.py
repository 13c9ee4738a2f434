"""What a call would do to a file, for the human who decides: a diff with its counts.

Every line that the call adds is in it. Lines that stay are left out but for a few around each change, and where a whole
file is replaced, so are removed lines beyond a number: those are counted.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from ..core.blocks import Value

CONTEXT = 3
_COMPARED = 4_000_000  # pairs of lines; above it, all of the old part is shown removed and all of the new one added
_REMOVED = 400
_NO_END = "\\ no line break at the end"


class Change(Value, frozen=True):
    """A file before (None: not there, or `unread` says why it cannot be shown) and after a call.

    `path` is where it really is, relative to the folder. `arguments` are those of the call that this shows.
    """

    path: str
    before: str | None
    after: str
    arguments: tuple[str, ...] = ()
    unread: str = ""
    whole: bool = False

    def summary(self) -> str:
        """What happens, in one line."""
        size = f"{_lines(self.after)}, {len(self.after.encode('utf-8', 'replace')):,} bytes"
        if self.unread:
            return f"replaces a file that cannot be shown ({self.unread}) with {size}"
        if self.before is None:
            return f"creates a file: {size}"
        if self.before == self.after:
            return "changes nothing"
        added, removed = self._counts()
        verb = "replaces the file" if self.whole else "edits the file"
        return f"{verb}: {_lines(self.before)} before, {_lines(self.after)} after (+{added:,} -{removed:,})"

    def rows(self) -> list[str]:
        """The diff: rows that begin with +, - or a blank, and @@ or \\ for a word of ours."""
        old, new = _split(self.before or ""), _split(self.after)
        rows: list[str] = []
        removed = 0
        for tag, a1, a2, b1, b2 in self._groups():
            if tag == "equal":
                rows += self._kept(old[a1:a2], a1, first=a1 == 0, last=a2 == len(old) and b2 == len(new))
                continue
            gone = old[a1:a2]
            room = max(0, _REMOVED - removed) if self.whole else len(gone)
            rows += ["-" + line for line in gone[:room]]
            if gone[room:]:
                rows.append(f"@@ {len(gone) - room:,} more lines are removed")
            removed += len(gone)
            rows += ["+" + line for line in new[b1:b2]]
        if self.before != self.after and self.after and not self.after.endswith("\n"):
            rows.append(_NO_END)
        return rows

    def _kept(self, lines: list[str], start: int, *, first: bool, last: bool) -> list[str]:
        head = 0 if first else CONTEXT
        tail = 0 if last else CONTEXT
        if len(lines) <= head + tail + 1:
            return [" " + line for line in lines]
        after = lines[len(lines) - tail :] if tail else []
        skipped = len(lines) - head - tail
        note = f"@@ {skipped:,} lines stay"
        if after:
            note += f"; line {start + head + skipped + 1:,}:"
        return [*[" " + line for line in lines[:head]], note, *[" " + line for line in after]]

    def _counts(self) -> tuple[int, int]:
        changed = [(b2 - b1, a2 - a1) for tag, a1, a2, b1, b2 in self._groups() if tag != "equal"]
        return sum(added for added, _ in changed), sum(removed for _, removed in changed)

    def _groups(self) -> list[tuple[str, int, int, int, int]]:
        # The end of the last line is a part of it, or `a` and `a\n` would look the same.
        old, new = _split(self.before or "", ends=True), _split(self.after, ends=True)
        start = 0
        while start < min(len(old), len(new)) and old[start] == new[start]:
            start += 1
        end = 0
        while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
            end += 1
        a, b = len(old) - end, len(new) - end
        groups: list[tuple[str, int, int, int, int]] = [("equal", 0, start, 0, start)] if start else []
        if (a - start) * (b - start) > _COMPARED:
            groups.append(("replace", start, a, start, b))
        elif a > start or b > start:
            matcher = SequenceMatcher(None, old[start:a], new[start:b])
            groups += [
                (tag, a1 + start, a2 + start, b1 + start, b2 + start) for tag, a1, a2, b1, b2 in matcher.get_opcodes()
            ]
        if end:
            groups.append(("equal", a, len(old), b, len(new)))
        return groups


def _split(text: str, *, ends: bool = False) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    if ends:
        lines = [line + "\n" for line in lines]
    return [*lines, last] if last else lines


def _lines(text: str) -> str:
    count = len(_split(text))
    return f"{count:,} line{'' if count == 1 else 's'}"
