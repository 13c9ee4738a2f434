"""What a sandboxed command may read: the system and the programs of the user, not what the user keeps.

Nothing is listed because it is secret; what is not listed cannot be read. The lists of secrets below only matter where a
listed folder, or one that the user names, holds one of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..client.config import config_home
from ..store.paths import data_dir
from .processes import looks_secret

SYSTEM = (
    "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /sys /nix /gnu /snap /run/current-system /var/lib/dpkg /var/lib/rpm "
    "/var/lib/alternatives /var/cache/fontconfig"
).split()
_RESOLVERS = "/etc/resolv.conf /etc/hosts".split()  # may be links into folders that are not listed

# Where programs of a user are, and what they need beside them. Neither a whole .config nor a whole .cargo: keys are there too.
_PROGRAMS = (
    "bin .local/bin .local/lib .local/pipx .local/share/pipx .local/share/uv .local/share/mise .local/share/virtualenvs "
    ".local/share/pnpm .local/share/fnm .cargo/bin .cargo/registry .cargo/git .cargo/config.toml .cargo/env .rustup .pyenv .rbenv "
    ".rvm .nvm .fnm .volta .asdf .sdkman .goenv .deno .bun .juliaup .julia .ghcup .nodenv .jenv .nix-profile go/bin go/pkg "
    ".gitconfig .config/git/config .config/git/ignore .config/git/attributes"
).split()
_GIT_SETTINGS = (".gitconfig", ".config/git/config")

_SECRETS_OF_USER = (
    ".ssh .gnupg .aws .azure .kube .docker .netrc .pgpass .my.cnf .npmrc .pypirc .git-credentials .config/git/credentials .config/gcloud "
    ".config/gh .config/hub .config/op .config/rclone .config/google-chrome .config/chromium .config/BraveSoftware .mozilla "
    ".thunderbird .password-store .local/share/keyrings .local/share/kwalletd .cargo/credentials .cargo/credentials.toml "
    ".gem/credentials .m2/settings.xml .gradle/gradle.properties .terraform.d .vault-token .bash_history .zsh_history .python_history "
    ".psql_history .claude .claude.json .codex .gemini .kimi .config/midstream .local/share/midstream .local/state/midstream"
).split()
_SECRETS_OF_SYSTEM = (
    "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssh /etc/ssl/private /etc/letsencrypt "
    "/etc/krb5.keytab /etc/kubernetes /etc/rancher /etc/docker /etc/wireguard /etc/openvpn /etc/ppp /etc/cups /etc/security/opasswd "
    "/etc/NetworkManager/system-connections /usr/local/etc/ssh"
).split()


def home_folder() -> str:
    return os.path.realpath(Path.home())


def secrets_of(home: str, environ: Mapping[str, str]) -> list[str]:
    """Paths that are hidden even where something above them may be read; the real ones, those that exist."""
    names = [*_SECRETS_OF_SYSTEM, *[f"{home}/{name}" for name in _SECRETS_OF_USER]]
    names += [str(config_home(environ)), str(data_dir(environ))]
    if store := environ.get("MIDSTREAM_STORE", ""):
        names.append(store.removeprefix("sqlite://"))
    names += git_settings_hidden(home)
    return sorted({os.path.realpath(name) for name in names if os.path.lexists(name)})


def git_settings_hidden(home: str) -> list[str]:
    """Those of the user's settings of git that hold a secret beside the name that a commit needs."""
    return [path for name in _GIT_SETTINGS if _holds_secret(path := f"{home}/{name}")]


def readable_paths(folder: str, home: str, extra: Iterable[str], *, network: bool) -> list[str]:
    """The paths that may be read with everything below them, as they are named; those that exist."""
    names = [*SYSTEM, *[f"{home}/{name}" for name in _PROGRAMS], *_python(), *_search_path(home), *_repository(folder)]
    names += [os.path.abspath(os.path.expanduser(name)) for name in extra]
    if network:
        names += [os.path.realpath(name) for name in _RESOLVERS]
    return [name for name in dict.fromkeys(names) if os.path.lexists(name)]


def without(path: str, secrets: Iterable[str]) -> Iterator[str]:
    """The parts of a path that hold no secret: itself, or what is in it."""
    inside = [secret for secret in secrets if secret == path or secret.startswith(path.rstrip("/") + "/")]
    if not inside:
        yield path
    elif path not in inside:
        try:
            names = sorted(os.listdir(path))
        except OSError:
            return
        for name in names:
            yield from without(f"{path.rstrip('/')}/{name}", inside)


def _python() -> list[str]:
    """Our own interpreter, which a project's environment may be made from."""
    return [os.path.realpath(path) for path in (sys.prefix, sys.base_prefix)]


def _search_path(home: str) -> Iterator[str]:
    """The folders that programs are found in, and what is installed beside them (`x/bin` needs `x/lib`)."""
    for entry in os.environ.get("PATH", "").split(":"):
        path = os.path.realpath(entry) if entry.startswith("/") else ""
        if not path or home.startswith(path.rstrip("/") + "/") or path in ("/", home):
            continue
        yield path
        above, name = os.path.split(path)
        shared = above in ("/", home, f"{home}/.local", f"{home}/.cargo") or home.startswith(above.rstrip("/") + "/")
        if name in ("bin", "sbin") and not shared:
            yield above


def _repository(folder: str) -> list[str]:
    """Where git keeps the history of this folder, if that is outside: in a folder above, or for a worktree elsewhere."""
    for above in (folder, *[str(each) for each in Path(folder).parents]):
        found = f"{above}/.git"
        if os.path.isdir(found):
            return [] if above == folder else _checked_repository(found)
        if os.path.isfile(found):
            return _checked_repository(_first_line(found, "gitdir: ", above))
    return []


def _checked_repository(path: str) -> list[str]:
    """Only what is a repository: the file that names it may have come with somebody else's code."""
    if not path or not os.path.isfile(f"{path}/HEAD"):
        return []
    common = _first_line(f"{path}/commondir", "", path) or path
    if not all(os.path.isdir(f"{common}/{name}") for name in ("objects", "refs")):
        return []
    return list(dict.fromkeys([os.path.realpath(common), os.path.realpath(path)]))


def _first_line(file: str, before: str, base: str) -> str:
    """The path that stands in a file behind these words, or ""."""
    try:
        with open(file, encoding="utf-8") as opened:
            line = opened.readline(4097).rstrip("\n")
    except (OSError, UnicodeDecodeError):
        return ""
    return os.path.join(base, line.removeprefix(before)) if line.startswith(before) and line else ""


def _holds_secret(path: str) -> bool:
    """Git's settings name its user, and sometimes a host's token."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return any(looks_secret("", line.strip()) for line in file.read(1 << 16).splitlines())
    except OSError:
        return False
