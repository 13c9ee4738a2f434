"""What goes with a message: a file read and judged by its content, in the form in which a model gets it.

Text is put into the message itself, under a line with its name and inside a fence that its content cannot close. Images,
sounds, videos and PDFs are Media. Anything else is refused with what to do, for no model reads it. Sizes are bounded.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import msgspec

from ..agent.risk import holds_secrets
from ..client.session import Session
from ..codec import encode_request
from ..core.blocks import Conversation, Media, Turn, human
from ..core.errors import LocalError
from ..core.media_type import HEAD, media_type
from ..core.patterns import late_pattern
from ..core.plural import pluralize
from ..core.visible import visible

MAX_MEDIA = 20 * 1024 * 1024
"""Bytes of one image, sound, video or PDF: more than that no host takes inside a request."""
MAX_TEXT = 512 * 1024
"""Bytes of one text; about 130,000 tokens."""
MAX_MESSAGE = 32 * 1024 * 1024
"""Bytes of all that goes with one message."""

STDIN = "-"
"""The name that stands for standard input."""

_PDF = "application/pdf"
# Non-blocking, or a FIFO without a writer would hang the chat.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_HEADER = "[attached {kind}: {name}]"
_ATTACHED = late_pattern(
    r"(?:\A|\n\n)\[attached (file|folder|resource): ([^\n]*)\]\n(`{3,})\n(.*?)\n\3(?=\n\n\[attached |\n?\Z)", re.DOTALL
)


class Attachment(msgspec.Struct, frozen=True):
    """One thing that goes with a message: a text in its fence, or a medium. `secret` says why it may hold secrets."""

    name: str
    size: int
    text: str = ""
    media: Media | None = None
    secret: str = ""
    detail: str = ""

    @property
    def label(self) -> str:
        """In one line: the name, what it is, its size."""
        kind = self.detail or (self.media.mime or self.media.kind if self.media is not None else "text")
        return f"{self.name} ({kind}{', ' + shown_size(self.size) if self.size else ''})"


def attach(path: str, shown: str | None = None) -> Attachment:
    """A file by its path, or an image or PDF by its address, which the model's host opens itself."""
    if path.startswith(("https://", "http://")):
        return _at_address(path)
    return read_attachment(Path(path).expanduser(), shown or path)


def read_attachment(path: Path, shown: str, *, follow: bool = True) -> Attachment:
    """A file, read now. With `follow` false, a symbolic link is refused."""
    data = read_file(path, shown, follow=follow)
    attachment = from_bytes(data, path.name, shown)
    # A link may have another name than the file that it leads to.
    why = holds_secrets(os.path.realpath(path)) or holds_secrets(str(path.absolute()), data)
    return msgspec.structs.replace(attachment, secret=why) if why else attachment


def read_file(path: Path, shown: str, *, follow: bool = True) -> bytes:
    """All bytes of a regular file; LocalError says what is wrong with it."""
    try:
        fd = os.open(path, _READ | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISDIR(mode):
                raise LocalError(
                    f"cannot attach {shown}: it is a folder; @{shown.rstrip('/')}/ in a message takes it along"
                )
            if not stat.S_ISREG(mode):
                raise LocalError(f"cannot attach {shown}: it is not a regular file")
            with os.fdopen(os.dup(fd), "rb") as file:
                data = file.read(MAX_MEDIA + 1)
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        why = "no such file" if missing else getattr(error, "strerror", None) or str(error)
        raise LocalError(f"cannot attach {shown}: {why}") from None
    if not data:
        raise LocalError(f"cannot attach {shown}: the file is empty")
    if len(data) > MAX_MEDIA:
        raise LocalError(f"cannot attach {shown}: it is larger than {shown_size(MAX_MEDIA)}")
    return data


def from_bytes(data: bytes, name: str, shown: str) -> Attachment:
    """What these bytes are to a model. `name` goes along with them, `shown` stands in messages to the user."""
    # By content, not by ending: people attach logs without one, and images with the wrong one.
    text = as_text(data)
    if text is not None:
        if len(data) > MAX_TEXT:
            raise LocalError(
                f"cannot attach {shown}: {shown_size(len(data))} of text is more than {shown_size(MAX_TEXT)}; let the model "
                "read it in parts with the tools read_file and grep"
            )
        return Attachment(shown, len(data), text=fenced("file", shown, text))
    mime = media_type(data[:HEAD], name)
    if mime.partition("/")[0] not in ("image", "audio", "video") and mime != _PDF:
        raise LocalError(
            f"cannot attach {shown}: no model reads {mime} as it is; convert it to text, PDF or an image first"
        )
    return Attachment(shown, len(data), media=Media.from_bytes(data, mime, name=name))


def read_stdin() -> Attachment:
    """What is piped in."""
    if sys.stdin is None or sys.stdin.isatty():
        raise LocalError("-a - attaches what is piped in, and nothing is")
    data = sys.stdin.buffer.read(MAX_MEDIA + 1)
    if not data:
        raise LocalError("cannot attach standard input: it is empty")
    if len(data) > MAX_MEDIA:
        raise LocalError(f"cannot attach standard input: it is larger than {shown_size(MAX_MEDIA)}")
    return from_bytes(data, "stdin", "standard input")


def _at_address(url: str) -> Attachment:
    name = PurePosixPath(urlsplit(url).path).name
    mime = media_type(b"", name)
    if not mime.startswith("image/") and mime != _PDF:
        raise LocalError(
            f"cannot attach {visible(url)}: by its address only an image or a PDF can be sent, and this does not end "
            "like one (.png, .jpg, .gif, .webp, .pdf); download it and attach the file"
        )
    return Attachment(url, 0, media=Media(mime, url=url, name=name))


def as_text(data: bytes) -> str | None:
    """The text, if that is what these bytes are: UTF-8, or UTF-16 with its mark."""
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        return None
    # A small PDF may be valid UTF-8.
    if "\0" in text or data.startswith(b"%PDF-"):
        return None
    return text.replace("\r\n", "\n")


def fenced(kind: str, name: str, text: str) -> str:
    """A text under its name, in a fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    header = _HEADER.format(kind=kind, name=visible(name).replace("\n", "⏎"))
    return f"{header}\n{fence}\n{text.rstrip(chr(10))}\n{fence}"


def secret_question(item: Attachment, model: str) -> tuple[str, str]:
    """What to say before a file that may hold secrets is sent, and the question."""
    return f"{item.name}: {item.secret}", f"Send it to {model}? [y]es, [n]o: "


def content_of(text: str, attachments: Iterable[Attachment]) -> tuple[str | Media, ...]:
    """The content of one message: one text, since every host takes that as a plain string, and the media behind it."""
    attachments = tuple(attachments)
    size = sum(each.size for each in attachments)
    if size > MAX_MESSAGE:
        raise LocalError(
            f"the attachments have {shown_size(size)} together, more than {shown_size(MAX_MESSAGE)} in one message; send fewer"
        )
    texts = [each.text for each in attachments if each.text]
    media = [each.media for each in attachments if each.media is not None]
    whole = "\n\n".join([part for part in (text, *texts) if part])
    if texts and media:
        whole += "\n"  # on a raw prompt, what follows must not stand on the line of the fence
    return (whole, *media) if whole else tuple(media)


def human_text(turn: Turn) -> str:
    """What a human turn said, with its attachments by name: for showing a conversation again."""
    folded = _ATTACHED.sub(_folded, turn.text)
    folded = folded.removesuffix("\n") if folded != turn.text else folded
    media = [
        f"[{block.kind}: {block.name or block.mime or block.kind}]" for block in turn.blocks if type(block) is Media
    ]
    return "\n".join([part for part in (folded, *media) if part])


def _folded(found: re.Match[str]) -> str:
    lines = found[4].count("\n") + 1
    line = f"[{found[1]}: {found[2]}, {pluralize(lines, 'line')}]"
    return f"\n{line}" if found.start() else line


def unread(session: Session, media: Sequence[Media], model: str | None = None) -> list[str]:
    """A line for each medium that this model (or the session's) does not read and gets a line of text for. Nothing is sent."""
    if not media:
        return []
    target = session.client.catalog.resolve(model or session.model)
    lines: list[str] = []
    for each in media:
        # Encoded for real, with nothing sent: the encoder is the only one who knows what becomes of it.
        probe = Conversation((human(each),))
        notes = encode_request(target, probe, options=session.options, cache=None).notes
        if any(note.code == "unsupported_media" for note in notes):
            what = "a PDF" if each.mime == _PDF else each.mime or each.kind
            lines.append(
                f"{target.name} does not read {what}: it gets a line of text instead of {visible(each.name or what)}"
            )
    return lines


def shown_size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.0f} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MB".replace(".0 MB", " MB")
