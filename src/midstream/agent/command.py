"""What of a shell command can be judged without running it: chains of plain words, and whether their options are harmless.

A command is read only if it consists of plain words, joined to others by && || | or ; and nothing else. Whatever else a
shell understands (quotes, $, backticks, redirections, globs, braces, ~, &, line breaks, comments …) makes it unreadable,
and so does every character outside the plain ones. The words behind those that a pattern names are judged by the program:

- readers only read; but for the options listed with them, anything goes;
- carriers run or write whatever their words say: nothing more may follow;
- of any other program, only options that are harmless nearly everywhere go, and no word that sets a variable, leaves the
  folder, or names a file that runs code later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import msgspec

from .autorun import runs_later

_WORD = r"[A-Za-z0-9_./:=@%+,-]+"
_PART = rf" *{_WORD}(?: +{_WORD})* *"
_CHAIN = re.compile(rf"{_PART}(?:(?:&&|\|\||\||;){_PART})*\Z")
_JOINTS = re.compile(r"&&|\|\||\||;")
_SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_VERSIONED = re.compile(r"(python|pip|perl|ruby|lua|php|node|gcc|clang|g\+\+|awk)[\d.-]+\Z")


class Reader(msgspec.Struct, frozen=True):
    """A program that only reads, but with these options: letters, long names (and what they are short for), whole words.

    `words` is how many words that are no options it may get; a further one would be a file to write.
    """

    letters: str = ""
    longs: tuple[str, ...] = ()
    singles: tuple[str, ...] = ()
    words: int | None = None


_READERS: dict[str, Reader] = {
    **dict.fromkeys(
        "ls cat head tail wc grep egrep fgrep cmp stat du df pwd echo true false which basename dirname realpath readlink uname "
        "whoami id ps cut tr nl jq sha1sum sha256sum sha512sum md5sum cksum od strings comm join paste fold expand seq test sleep "
        "diff tac rev".split(),
        Reader(),
    ),
    "base64": Reader(letters="o", longs=("output",)),
    "uniq": Reader(words=1),
    "date": Reader(letters="s", longs=("set",), words=1),
    "file": Reader(letters="Cm", longs=("compile", "magic-file")),
    "tree": Reader(letters="oR", longs=("output",)),
    "sort": Reader(letters="oT", longs=("output", "compress-program", "temporary-directory", "files0-from")),
    "rg": Reader(longs=("pre", "pre-glob", "hostname-bin", "search-zip"), letters="z"),
    "fd": Reader(letters="xX", longs=("exec", "exec-batch")),
    "find": Reader(
        singles=tuple("-delete -exec -execdir -ok -okdir -fprint -fprint0 -fprintf -fls -files0-from".split())
    ),
}
# Of git, the subcommands that only read; config, hooks and attributes, which may make them run things, are files that no
# "always" covers.
_GIT = Reader(
    letters="O",
    longs=tuple(
        "output ext-diff textconv filters open-files-in-pager exec exec-path upload-pack receive-pack paginate config-env git-dir "
        "work-tree edit contents batch-command".split()
    ),
)
_GIT_READS = frozenset(
    "status log diff show blame annotate grep ls-files ls-tree rev-parse rev-list describe shortlog cat-file merge-base name-rev "
    "diff-tree diff-index diff-files count-objects for-each-ref show-ref check-ignore check-attr whatchanged range-diff version".split()
)
_GIT_CARRIES = frozenset(
    "config bisect submodule filter-branch rebase difftool mergetool hook credential send-email daemon instaweb maintenance clone init "
    "remote archive bundle apply am fetch pull ls-remote worktree sparse-checkout notes replace update-ref fast-import hash-object".split()
)
_CARRIERS = frozenset(
    "env xargs parallel sudo doas su runuser pkexec nohup nice ionice chrt taskset timeout time stdbuf setsid unshare nsenter chroot "
    "flock script expect watch entr strace ltrace gdb lldb valgrind perf sh bash dash ash zsh ksh mksh fish csh tcsh pwsh busybox toybox "
    "eval exec command builtin source . trap coproc alias export declare typeset local readonly set shopt enable hash bind complete "
    "mapfile read printf let function if then else elif for while until case do select python perl ruby node deno bun php lua luajit awk gawk "
    "mawk nawk sed tclsh wish R Rscript julia ghci scala groovy osascript sqlite3 psql mysql ed ex vi vim nvim view emacs nano pico less "
    "more most man info git npx bunx pnpx uvx pipx dlx ssh scp sftp rsync rclone nc ncat socat telnet ftp curl wget aria2c http docker podman "
    "nerdctl kubectl helm systemctl systemd-run crontab at batch launchctl service cp mv ln install dd tee tar bsdtar cpio pax zip unzip 7z "
    "gzip gunzip bzip2 xz zstd patch truncate split csplit shred chmod chown chattr setfacl mount xxd openssl gpg m4 npm yarn pnpm pip uv poetry pdm "
    "hatch conda mamba cargo rustup go gem bundle rake brew apt apt-get dnf yum apk pacman snap gradle mvn dotnet composer mix nix".split()
)
# Letters that no common program takes for a file to write or a thing to run.
_HARMLESS_LETTERS = re.compile(r"-[vqhVnsxkmtalA]+\d*\Z|-j?\d+\Z|-j\Z")
_RISKY = tuple(
    "output out outdir outfile exec command cmd run call eval code script shell pager editor browser hook config rcfile rc init init-file "
    "plugin load require import preload loader module ext-diff textconv upload-pack receive-pack to-command checkpoint-action "
    "use-compress-program compress-program rsh rmt-command rsync-path delete remove write in-place inplace save store log-file logfile "
    "log dest target directory dir cwd chdir prefix root rootdir home upload force preprocessor pre post filter-command proxy-command "
    "settings set setopt option define override-ini env environment fix update apply install global user format-command makefile file "
    "include path basetemp junit-xml junitxml report cov-report cov-config wrapper toolchain with eval-file profile trace dump record "
    "patch edit interactive from to cache-dir temp tmp".split()
)
_STEMS = tuple(
    "exec output eval command script plugin config hook write delete install preload shell upload pager editor wrap".split()
)


def simple_commands(command: str) -> list[list[str]] | None:
    """The words of each part of a chain of plain commands, or None if it is anything more than that."""
    if not _CHAIN.match(command):
        return None
    return [part.split() for part in _JOINTS.split(command)]


def is_plain(text: str) -> bool:
    """Whether a text is a command of plain words. NAME=value before one sets a variable, and LD_PRELOAD is one."""
    return bool(re.fullmatch(_PART, text)) and "=" not in text.split()[0]


def is_harmless(words: Sequence[str], named: int, folder: str = "") -> bool:
    """Whether a command does no more than a person means who allows its first `named` words."""
    further = words[named:]
    if not further:
        return True
    program = _program(words[0])
    if program == "git":
        return _is_harmless_git(words, named, folder)
    reader = _READERS.get(program)
    if reader is not None:
        return _only_reads(reader, words[1:], named - 1)
    if program in _CARRIERS and (named == 1 or words[named - 1].startswith("-")):
        return False
    return all(_is_harmless_word(word, folder) for word in further)


def _program(word: str) -> str:
    """The name that the lists know it by; another folder's program of that name is another program."""
    folder = next((folder for folder in _SYSTEM if word.startswith(folder)), "")
    name = word.removeprefix(folder)
    found = _VERSIONED.match(name)
    return found[1] if found else name


def _is_harmless_git(words: Sequence[str], named: int, folder: str) -> bool:
    # An option before the subcommand sets configuration, or leads to another repository.
    if words[1].startswith("-"):
        return words[1:] == ["--version"]
    if words[1] in _GIT_READS:
        return _only_reads(_GIT, words[2:], max(0, named - 2))
    if named < (3 if words[1] in _GIT_CARRIES else 2) or words[named - 1].startswith("-"):
        return False
    return all(_is_harmless_word(word, folder) for word in words[named:])


def _only_reads(reader: Reader, arguments: Sequence[str], named: int) -> bool:
    plain = 0
    options = True
    for number, word in enumerate(arguments):
        if not options or not word.startswith("-") or word == "-":
            plain += 1
        elif number < named:
            continue  # the pattern's own words are the person's choice
        elif word == "--":
            options = False
        elif word.startswith("--"):
            if _is_among(word[2:].partition("=")[0], reader.longs):
                return False
        elif word in reader.singles or (not reader.singles and set(word) & set(reader.letters)):
            return False
    return reader.words is None or plain <= reader.words


def _is_harmless_word(word: str, folder: str) -> bool:
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return not _is_risky(name) and not (equals and ("/" in value or "." in value))
    if word.startswith("-"):
        return word == "-" or bool(_HARMLESS_LETTERS.match(word))
    if "=" in word or word[0] in "@+%":
        return False
    return all(_stays_inside(path, folder) for path in {word, *word.split(":")} - {""})


def _stays_inside(path: str, folder: str) -> bool:
    plain = os.path.normpath(path)
    if plain.startswith(("/", "..")) or runs_later(plain):
        return False
    if not folder:
        return True
    real = os.path.realpath(os.path.join(folder, path))  # noqa: PTH118 - `..` behind a link must stay
    inside = real == folder or real.startswith(folder.rstrip("/") + "/")
    return inside and not runs_later(real.removeprefix(folder))


def _is_among(name: str, options: Sequence[str]) -> bool:
    """Whether a long option is one of these, or short for one, which getopt allows."""
    return any(option.startswith(name.lower()) for option in options)


def _is_risky(name: str) -> bool:
    words = name.lower().split("-")
    return _is_among(name, _RISKY) or bool(set(words) & set(_RISKY)) or any(stem in name.lower() for stem in _STEMS)
