"""The media type of a file: by its first bytes, else by its name.

A label may be wrong and a name may be missing, but a host that is sent a JPEG as `image/png` refuses it: so content decides
where it can. Text has no mark of its own; what decodes as UTF-8 is text, and its name says of what kind.
"""

from __future__ import annotations

HEAD = 4096
"""How many of the first bytes are looked at."""

_UNKNOWN = "application/octet-stream"
_PLAIN = "text/plain"
# Signatures that stand at the very first byte. Order does not matter: none is the beginning of another. What has its
# signature further inside (RIFF, Ogg, ISO media) or needs its bits looked at (MPEG audio) is in `type_of_content`.
_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"#!AMR", "audio/amr"),
    (b"MThd", "audio/midi"),
    (b"\x00\x00\x01\xba", "video/mpeg"),
    (b"\x00\x00\x01\xb3", "video/mpeg"),
    (b"FLV\x01", "video/x-flv"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
# ISO media files are alike but for their brand. The list of brands is open and
# most are a flavour of MP4, so only those that are not video/mp4 are listed.
_BRANDS = {
    b"avif": "image/avif", b"avis": "image/avif", b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif",
    b"M4A ": "audio/mp4", b"M4B ": "audio/mp4", b"qt  ": "video/quicktime", b"3gp4": "video/3gpp", b"3gp5": "video/3gpp",
}  # fmt: skip
# Read only for what has no signature and is not text, and to tell the kinds of ZIP apart.
_SUFFIXES = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp", "bmp": "image/bmp",
    "tif": "image/tiff", "tiff": "image/tiff", "ico": "image/x-icon", "svg": "image/svg+xml", "avif": "image/avif",
    "heic": "image/heic", "heif": "image/heif", "pdf": "application/pdf",
    "mp3": "audio/mpeg", "wav": "audio/wav", "flac": "audio/flac", "ogg": "audio/ogg", "oga": "audio/ogg", "opus": "audio/ogg",
    "m4a": "audio/mp4", "aac": "audio/aac", "aif": "audio/aiff", "aiff": "audio/aiff", "mid": "audio/midi", "amr": "audio/amr",
    "mp4": "video/mp4", "m4v": "video/mp4", "webm": "video/webm", "mkv": "video/x-matroska", "mov": "video/quicktime",
    "avi": "video/x-msvideo", "mpg": "video/mpeg", "mpeg": "video/mpeg", "ogv": "video/ogg", "3gp": "video/3gpp",
    "flv": "video/x-flv", "zip": "application/zip", "gz": "application/gzip", "tar": "application/x-tar",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text", "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "epub": "application/epub+zip", "jar": "application/java-archive", "doc": "application/msword",
    "xls": "application/vnd.ms-excel", "ppt": "application/vnd.ms-powerpoint",
}  # fmt: skip
# Read only for what decodes as text: a `.md` that is really an image has been found by its bytes before.
_TEXTS = {
    "md": "text/markdown", "markdown": "text/markdown", "csv": "text/csv", "tsv": "text/tab-separated-values", "htm": "text/html",
    "html": "text/html", "css": "text/css", "js": "text/javascript", "mjs": "text/javascript", "xml": "text/xml", "rtf": "text/rtf",
    "py": "text/x-python", "json": "application/json", "svg": "image/svg+xml",
}  # fmt: skip
_TOP = frozenset(("image", "audio", "video", "text", "application", "font", "model", "multipart", "message"))


def media_type(head: bytes, name: str = "") -> str:
    """The media type of what begins with `head` (see `HEAD`) and is called `name`; never empty."""
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    found = type_of_content(head)
    # Office documents, e-books and Java archives are ZIPs.
    if found == "application/zip":  # what it holds is not at its beginning
        by_name = _SUFFIXES.get(suffix, "")
        # A ZIP called `photo.png` stays a ZIP: the name may only choose among things that are ZIPs.
        return by_name if by_name.startswith("application/") else found
    if found:
        return found
    if head and _is_text(head):
        return _TEXTS.get(suffix, _PLAIN)
    return _SUFFIXES.get(suffix, _UNKNOWN)


def type_of_content(head: bytes) -> str:
    """The media type that only the first bytes say; empty where they say nothing."""
    for start, found in _STARTS:
        # Two letters are a word as well: text may begin so.
        if head.startswith(start) and not (start == b"BM" and _is_text(head)):
            return found
    match head[:4]:
        case b"RIFF":
            return _RIFF.get(head[8:12], "")
        case b"FORM":
            return "audio/aiff" if head[8:11] == b"AIF" else ""
        case b"OggS":
            # The codec stands in the first page of an Ogg file, and
            # Matroska names its kind in the header: hence the short slices.
            return "video/ogg" if b"\x80theora" in head[:128] else "audio/ogg"
        case b"\x1aE\xdf\xa3":
            return "video/webm" if b"webm" in head[:64] else "video/x-matroska"
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    # Eleven set bits. The rest of the second byte says version and layer; text in legacy encodings can begin with these
    # bits too, so the combinations that the standard reserves are excluded.
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:  # the sync word of an MPEG audio frame
        if head[1] & 0xF6 == 0xF0:
            return "audio/aac"
        # Layer 0 is reserved, and so is version 1: FF FE and FF FF begin UTF-16 and filler, not sound.
        if head[1] & 0x06 and head[1] & 0x18 != 0x08 and head[1] != 0xFF and not head.startswith(b"\xff\xfe"):
            return "audio/mpeg"
    return ""


def is_media_type(word: str) -> bool:
    """Whether this is the name of a media type (`image/png`, `image/*`) and cannot be anything else in its place."""
    top, slash, rest = word.partition("/")
    # Base64 has slashes too. A registered top-level name, one slash and a short word cannot be data.
    return bool(slash and rest) and top in _TOP and len(word) < 128 and "/" not in rest


def _is_text(head: bytes) -> bool:
    # Valid UTF-8, but no text file has it; many binary formats do.
    if b"\x00" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) >= HEAD and error.start >= len(head) - 3  # a character that the cut went through
    return True
