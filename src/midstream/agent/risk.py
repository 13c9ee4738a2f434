"""What can be judged about a call without running it: which files run code later, and which commands are harmless.

Files: hooks, start-up files, settings of editors and CI, build files. Some tool picks such a file up by its place or name
(`git commit`, `cd`, opening a folder, `make`), so whoever writes it decides what runs then. Names are compared as a
forgiving file system would (case, composed characters, ignored ones), and every part of the path counts, including the
working folder's. Ordinary sources and tests are not listed, although they run as well: a person asks for those by name.

Commands: read only if they consist of plain words, joined to others by && || | or ; and nothing else. Any other shell
syntax (quotes, $, backticks, redirections, globs, braces, ~, &, line breaks, comments …) makes a command unreadable, and so
does every character outside the plain ones. The words after those that a pattern names are judged by the program:

- readers only read: all arguments are allowed, except the options listed with them;
- carriers run or write whatever their arguments say: no further word is allowed;
- any other program may only get options that are harmless nearly everywhere, and no word that sets a variable, leaves the
  folder, or names a file that runs code later.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from fnmatch import fnmatchcase, translate
from functools import lru_cache

import msgspec

from ..client.config import config_home
from ..client.key_store import FILE as KEYS_FILE
from ..core.patterns import late_pattern

_HOOKS = (
    "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit "
    "pre-rebase post-checkout post-merge pre-push pre-receive update post-receive post-update reference-transaction "
    "push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change"
)

INSTALLED = "other programs start what is installed here"

# What happens -> the names of such files; names that end in a slash are folders, with everything below them.
_TABLE: dict[str, str] = {
    "git reads and runs what is in this folder": ".git/ *.git/ git~1/ .gitconfig .gitmodules .config/git/",
    "git runs it as a hook": f".githooks/ .git-hooks/ .husky/ .lefthook/ {_HOOKS}",
    "hooks are configured here": (
        ".pre-commit-config.y*ml .pre-commit-hooks.y*ml lefthook.y*ml .lefthook.y*ml lefthook-local.y*ml .lintstagedrc* "
        "lint-staged.config.* .huskyrc* .overcommit.yml captainhook.json"
    ),
    "midstream reads its settings here": ".midstream.toml .midstream/ .config/midstream/",
    "other agents read their settings, hooks and servers here": (
        ".claude/ .claude.json .cursor/ .cursorrules .windsurf/ .continue/ .codex/ .gemini/ .kimi/ .roo/ .cline/ .mcp.json .aider.conf.yml "
        ".opencode/ opencode.json .config/opencode/"
    ),
    "agents follow what it says": "agents.md agents.override.md claude.md claude.local.md gemini.md .agents/ skill.md",
    "an editor runs tasks from here": (
        ".vscode/ .vscode-server/ *.code-workspace .idea/ .fleet/ .zed/ .devcontainer/ .devcontainer.json .vimrc .gvimrc .exrc "
        ".nvimrc .nvim.lua .vim/ .nvim/ .config/nvim/ .emacs .emacs.d/ .config/emacs/ .dir-locals*.el .project.vim .sublime-project"
    ),
    "a shell runs it when it starts": (
        ".profile .bashrc .bash_* .bash.bashrc .zshrc .zshenv .zprofile .zlogin .zlogout .zsh* .kshrc .mkshrc .shrc .cshrc .tcshrc "
        ".login .logout .inputrc .xinitrc .xprofile .xsession* .pam_environment .config/fish/ .config/zsh/ .config/nushell/ "
        ".config/environment.d/ .tmux.conf .config/tmux/ .screenrc profile.d/ .oh-my-zsh/ .config/powershell/"
    ),
    "it sets the environment of later commands": (
        ".env .env.* *.env .envrc .direnv/ .config/direnv/ .tool-versions .mise.toml mise.toml .mise/ .config/mise/ .rtx.toml "
        ".asdfrc .flaskenv"
    ),
    "a program runs it when it starts": (
        ".gdbinit .gdbearlyinit .lldbinit .irbrc .pryrc .pdbrc .pythonrc .pythonrc.py .rprofile .renviron .ipython/ .jupyter/ "
        ".psqlrc .sqliterc .curlrc .wgetrc .ghci .gitlab/ .lesskey .ackrc .ripgreprc .config/ripgrep/ .mailcap"
    ),
    "Python imports it on its own": "sitecustomize.py usercustomize.py *.pth site-packages/ dist-packages/ conftest.py",
    INSTALLED: (
        "node_modules/ .venv/ venv/ .tox/ .nox/ .virtualenvs/ .local/bin/ .local/lib/ .bin/ .cargo/ .rustup/ .go/bin/ .yarn/ .pnp.* .bundle/ .gem/ .mvn/ "
        ".gradle/ .sbt/ .stack/ .cabal/ .opam/ .dotnet/ .nuget/ .terraform/"
    ),
    "CI runs it": (
        ".github/ .gitlab-ci.y*ml .gitlab-ci/ .circleci/ .buildkite/ .ci/ .gitea/ .forgejo/ .woodpecker/ .woodpecker.y*ml .drone.y*ml "
        ".travis.yml .appveyor.yml appveyor.yml .cirrus.y*ml azure-pipelines*.y*ml .azure-pipelines/ .azuredevops/ jenkinsfile* "
        "bitbucket-pipelines.yml cloudbuild.y*ml buildspec.y*ml .teamcity/ .semaphore/ .sourcehut/ .build.yml .builds/ .tekton/ "
        "codefresh.y*ml .harness/ wercker.yml netlify.toml vercel.json fly.toml render.y*ml procfile .readthedocs.y*ml"
    ),
    "a build tool or a package manager runs what it says": (
        "makefile gnumakefile *.mk justfile .justfile taskfile.y*ml taskfile rakefile gemfile *.gemspec guardfile sconstruct sconscript "
        "cmakelists.txt *.cmake meson.build configure configure.ac build.ninja build.bazel workspace.bazel module.bazel .bazelrc "
        "build.rs cargo.toml build.gradle* settings.gradle* gradle.properties gradlew gradlew.bat gradle-wrapper.properties mvnw "
        "pom.xml build.sbt build.zig build.xml package.json .npmrc .yarnrc* .pnpmfile.cjs pnpm-workspace.y*ml bunfig.toml deno.json* "
        "composer.json pyproject.toml setup.py setup.cfg tox.ini noxfile.py pytest.ini .coveragerc dodo.py fabfile.py wscript hatch.toml "
        "hatch_build.py pip.conf .config/pip/ uv.toml .pypirc .condarc .gemrc mix.exs go.work magefile.go dockerfile* containerfile* "
        "*.dockerfile docker-compose*.y*ml compose*.y*ml vagrantfile tiltfile skaffold.y*ml *.tf flake.nix shell.nix default.nix "
        "gruntfile.* gulpfile.* webpack.config.* vite.config.* vitest.config.* jest.config.* babel.config.* .babelrc* .eslintrc* "
        "eslint.config.* .prettierrc* prettier.config.* rollup.config.* next.config.* tailwind.config.* postcss.config.* .mocharc* *.csproj "
        "*.targets *.props *.sln"
    ),
    "the system starts it": (
        "*.service *.timer *.socket *.desktop .config/systemd/ .config/autostart/ .config/autostart-scripts/ .config/upstart/ "
        ".local/share/applications/ .local/share/systemd/ .local/share/dbus-1/ cron.*/ crontab crontabs/ .crontab launchagents/ launchdaemons/ "
        "init.d/ rc.d/ rc.local .config/dbus-1/ .config/plasma-workspace/ .config/hypr/ .config/sway/ .config/i3/ .i3/ .fluxbox/"
    ),
    "it holds keys or decides who may log in": (
        ".ssh/ .gnupg/ .aws/ .azure/ .kube/ .docker/ .netrc .pgpass .config/gcloud/ .config/gh/ authorized_keys known_hosts sudoers sudoers.d/ "
        "id_rsa* id_ed25519* id_ecdsa*"
    ),
}

# Characters that some file systems ignore when they compare names.
_IGNORED = late_pattern("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
# Matched from the right for files, and anywhere in the path for folders: `x/.git/hooks/y` runs whatever comes behind.
_ROWS = [
    (tuple(name.rstrip("/").split("/")), name.endswith("/"), why) for why, row in _TABLE.items() for name in row.split()
]
_LAST_NAMES = frozenset([names[-1] for names, _, __ in _ROWS if "*" not in names[-1]])
_LAST_PATTERNS = late_pattern("|".join(sorted({translate(names[-1]) for names, _, __ in _ROWS if "*" in names[-1]})))


def runs_later(path: str) -> str:
    """Why what is written to this path may run later, or "". The path is the real one, without links or `..`."""
    # The folder's own parts count too: a project inside `.github` is no less read by CI.
    parts = [_folded(part) for part in path.split("/") if part not in ("", ".")]
    for names, is_folder, why in _ROWS:
        size = len(names)
        starts = range(len(parts) - size + 1) if is_folder else [len(parts) - size]
        for at in starts:
            if at >= 0 and all(fnmatchcase(part, name) for part, name in zip(parts[at:], names, strict=False)):
                return why
    return ""


_KEY_FILES = (
    ".env .env.* *.env .envrc .netrc _netrc .pgpass .npmrc .pypirc .git-credentials .htpasswd .vault-token .s3cfg .boto "
    "credentials credentials.json client_secret*.json service_account*.json secrets.y*ml secrets.json secrets.toml "
    "id_rsa* id_ed25519* id_ecdsa* id_dsa* *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk *.gpg *.asc *.tfstate "
    "shadow .ssh/ .gnupg/ .aws/ .azure/ .kube/ .docker/ .config/gcloud/ .config/gh/ .config/midstream/keys.json"
).split()
_HARMLESS = ("*.pub", "*.example", "*.sample", "*.template", "*.dist")
_PRIVATE_KEY = late_pattern(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----")


def holds_secrets(path: str, data: bytes = b"") -> str:
    """Why a file may hold keys or passwords that should not leave the machine unasked, or "": by its name, or by what is
    in it. The path is the real one."""
    parts = [_folded(part) for part in path.split("/") if part not in ("", ".")]
    if parts and any(fnmatchcase(parts[-1], name) for name in _HARMLESS):
        return ""
    for name in _KEY_FILES:
        names, is_folder = name.rstrip("/").split("/"), name.endswith("/")
        starts = range(len(parts) - len(names)) if is_folder else [len(parts) - len(names)]
        for at in starts:
            if at >= 0 and all(fnmatchcase(part, each) for part, each in zip(parts[at:], names, strict=False)):
                return f"its name says that it may hold keys or passwords ({name})"
    if parts and parts[-1] == KEYS_FILE and os.path.realpath(path) == os.path.realpath(config_home() / KEYS_FILE):
        return "midstream stores your keys in it"  # wherever MIDSTREAM_HOME has it
    return "there is a private key in it" if _PRIVATE_KEY.search(data[: 1 << 20]) else ""


@lru_cache(1 << 17)
def may_run_later(name: str) -> bool:
    """Whether a path that ends in this name may be one of those. For looking at whole trees, again and again."""
    # Windows and some network shares drop blanks and dots at the end of a name.
    folded = name.lower().rstrip(" .") or name if name.isascii() else _folded(name)
    return folded in _LAST_NAMES or bool(_LAST_PATTERNS.match(folded))


def _folded(part: str) -> str:
    plain = _IGNORED.sub("", unicodedata.normalize("NFKC", part)).casefold()
    return unicodedata.normalize("NFKC", plain).rstrip(" .") or part


_WORD = r"[A-Za-z0-9_./:=@%+,-]+"
_PART = rf" *{_WORD}(?: +{_WORD})* *"
_CHAIN = late_pattern(rf"{_PART}(?:(?:&&|\|\||\||;){_PART})*\Z")
_JOINTS = late_pattern(r"&&|\|\||\||;")
_SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_VERSION = late_pattern(r"(?:[-.]?\d+)+\Z|\.(?:basic|tiny|nox|gtk3?)\Z")
_MOVERS = frozenset({"cd", "pushd", "popd"})


class Reader(msgspec.Struct, frozen=True):
    """A program that only reads, except with these options: letters, long names (and their abbreviations), whole words.

    `words` is how many arguments that are not options it may get; one more would be a file to write. `never` is what none of
    them may look like.
    """

    letters: str = ""
    longs: tuple[str, ...] = ()
    singles: tuple[str, ...] = ()
    words: int | None = None
    never: str = ""


_READERS: dict[str, Reader] = {
    **dict.fromkeys(
        "ls cat head tail wc grep egrep fgrep cmp stat du df pwd echo true false which basename dirname realpath readlink uname "
        "whoami id ps cut tr nl jq sha1sum sha256sum sha512sum md5sum cksum od strings comm join paste fold expand seq test sleep "
        "diff tac rev".split(),
        Reader(),
    ),
    "base64": Reader(letters="o", longs=("output",)),
    "uniq": Reader(words=1),
    "date": Reader(letters="s", longs=("set",), words=1, never=r"[\d.]+"),  # digits alone set the clock
    "file": Reader(letters="Cm", longs=("compile", "magic-file")),
    "tree": Reader(letters="oR", longs=("output",)),
    "sort": Reader(letters="oT", longs=("output", "compress-program", "temporary-directory", "files0-from")),
    "rg": Reader(longs=("pre", "pre-glob", "hostname-bin", "search-zip"), letters="z"),
    **dict.fromkeys(("fd", "fdfind"), Reader(letters="xX", longs=("exec", "exec-batch"))),
    "find": Reader(
        singles=tuple("-delete -exec -execdir -ok -okdir -fprint -fprint0 -fprintf -fls -files0-from".split())
    ),
}
# git's subcommands that only read. Config, hooks and attributes may make them run things, but those are files that no
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
    "remote archive bundle apply am fetch pull ls-remote worktree sparse-checkout notes replace update-ref fast-import hash-object "
    "push lfs merge-index mergetool--lib p4 svn cvsimport cvsexportcommit upload-pack receive-pack upload-archive shell web--browse "
    "for-each-repo column help var read-tree checkout-index".split()
)
# Programs whose arguments are programs, scripts or places to write. The list errs by being long: a name too many
# costs a question, one too few lets a pattern for `x *` run anything.
_CARRIERS = frozenset(
    "env xargs parallel sudo doas su runuser pkexec nohup nice ionice chrt taskset timeout time stdbuf setsid unshare nsenter chroot "
    "flock script expect watch entr strace ltrace gdb lldb valgrind perf sh bash dash ash zsh ksh mksh fish csh tcsh pwsh busybox toybox "
    "eval exec command builtin source . trap coproc alias export declare typeset local readonly set shopt enable hash bind complete "
    "mapfile read printf let function if then else elif for while until case do select python perl ruby node deno bun php lua luajit awk gawk "
    "mawk nawk sed tclsh wish R Rscript julia ghci scala groovy osascript sqlite3 psql mysql ed ex vi vim nvim view emacs nano pico less "
    "more most man info git npx bunx pnpx uvx pipx dlx ssh scp sftp rsync rclone nc ncat socat telnet ftp curl wget aria2c http docker podman "
    "nerdctl kubectl helm systemctl systemd-run crontab at batch launchctl service cp mv ln install dd tee tar bsdtar cpio pax zip unzip 7z "
    "gzip gunzip bzip2 xz zstd patch truncate split csplit shred chmod chown chattr setfacl mount xxd openssl gpg m4 npm yarn pnpm pip uv poetry pdm "
    "hatch conda mamba cargo rustup go gem bundle rake brew apt apt-get dnf yum apk pacman snap gradle mvn dotnet composer mix nix "
    "nodejs pypy ipython jython bpython ts-node tsx java javac jshell kotlin kotlinc swift raku elixir iex erl escript guile racket sbcl clisp "
    "ocaml runghc runhaskell ghc stack cabal dart nim crystal tcc octave maxima gnuplot bc dc tmux screen dtach byobu jobs fc compgen compopt "
    "readarray wait kill pkill killall xdg-open open start run-parts start-stop-daemon ansible ansible-playbook terraform tofu pulumi vagrant "
    "packer gh glab hub aws gcloud az doctl flyctl heroku vercel netlify hg svn fossil jar unrar unar 7za 7zr 7zz lha ar bunzip2 unxz unzstd "
    "uncompress unsquashfs cabextract rpm dpkg coverage tox nox pre-commit invoke fab doit pipenv virtualenv mise asdf direnv make-kpkg "
    "loginctl machinectl bwrap firejail proot fakeroot faketime setpriv capsh prlimit numactl chpst daemonize daemon nsjail ssh-add ssh-agent "
    "ssh-keygen ld gdbserver rr lynx w3m mutt mail sendmail msgfmt".split()
)
# Behind these a program, a module or an image is named, and not only among a project's own scripts.
_CARRYING_WORDS = frozenset({"run", "exec", "x", "dlx", "tool", "eval", "shell", "env", "alias", "plugin"})
_OWN_SCRIPTS = frozenset({"npm", "pnpm", "yarn", "cargo"})  # `npm run build`
# Letters that no common program takes as a file to write or a program to run.
_HARMLESS_LETTERS = late_pattern(r"-[vqhVnsxkmtalA]+\d*\Z|-j?\d+\Z|-j\Z")
_RISKY = tuple(
    "output out outdir outfile exec command cmd run call eval code script shell pager editor browser hook config rcfile rc init init-file "
    "plugin load require import preload loader module ext-diff textconv upload-pack receive-pack to-command checkpoint-action "
    "use-compress-program compress-program rsh rmt-command rsync-path delete remove write in-place inplace save store log-file logfile "
    "log dest target directory dir cwd chdir prefix root rootdir home upload force preprocessor pre post filter-command proxy-command "
    "settings set setopt option define override-ini env environment fix update apply install global user format-command makefile file "
    "include path options pdbcls pastebin logger specs basetemp junit-xml junitxml report cov-report cov-config wrapper toolchain with eval-file profile trace dump record "
    "patch edit interactive from to cache-dir temp tmp".split()
)
_STEMS = tuple(
    "exec output eval command script plugin config hook write delete install preload shell upload pager editor wrap file dir path "
    "setup runner resolver parser format report transform environment process noqa snapshot".split()
)


def simple_commands(command: str) -> list[list[str]] | None:
    """The words of each part of a chain of plain commands, or None if it is anything more than that."""
    if not _CHAIN.match(command):
        return None
    parts = [part.split() for part in _JOINTS.split(command)]
    if len(parts) > 1 and any(words[0] in _MOVERS for words in parts):
        # What the others write or run is then somewhere else than it seems.
        return parts if all(words[0] in _READERS or _moves_inside(words) for words in parts) else None
    return parts


def _moves_inside(words: Sequence[str]) -> bool:
    return words[0] in _MOVERS and len(words) == 2 and words[1] != "-"


def is_plain(text: str) -> bool:
    """Whether a text is a command of plain words. NAME=value in front would set a variable, such as LD_PRELOAD."""
    return bool(re.fullmatch(_PART, text)) and "=" not in text.split()[0]


def is_harmless(words: Sequence[str], named: int, folder: str = "") -> bool:
    """Whether a command does no more than a person expects who allows its first `named` words."""
    further = words[named:]
    if not further:
        return True
    program = _program(words[0])
    if program == "git":
        return _is_harmless_git(words, named, folder)
    reader = _READERS.get(program)
    if reader is not None:
        return _only_reads(reader, words[1:], named - 1)
    if program in _MOVERS and "-" in words:
        return False
    if _carries(words[0]):
        last = words[named - 1]
        if named == 1 or last.startswith("-"):
            return False
        # `npm run` names scripts of the project's own package.json,
        # which is itself a file that is asked about each time.
        if last in _CARRYING_WORDS and not (last == "run" and program in _OWN_SCRIPTS):
            return False
    return all(_is_harmless_word(word, folder) for word in further)


def _program(word: str) -> str:
    """The name used in the lists above; a program of that name in another folder is another program."""
    folder = next((folder for folder in _SYSTEM if word.startswith(folder)), "")
    return word.removeprefix(folder)


def _carries(word: str) -> bool:
    """Whether a program runs or writes what its words say: by its name, in any folder and in any version."""
    name = word.rpartition("/")[2]
    return name in _CARRIERS or _VERSION.sub("", name) in _CARRIERS


def _is_harmless_git(words: Sequence[str], named: int, folder: str) -> bool:
    # An option before the subcommand sets configuration or selects another repository.
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
            if number >= named and reader.never and re.fullmatch(reader.never, word):
                return False
        if number < named or not word.startswith("-"):
            continue  # the words of the pattern itself were chosen by a person
        if word == "--":
            # It may be the value of the word before it (`find -name -- -delete`): what follows is judged as before.
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
    # Both the word and its parts: `host:path` and `file:line` are one word to the shell.
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
    """Whether a long option is one of these or an abbreviation of one, which getopt accepts."""
    return any(option.startswith(name.lower()) for option in options)


def _is_risky(name: str) -> bool:
    words = name.lower().split("-")
    return _is_among(name, _RISKY) or bool(set(words) & set(_RISKY)) or any(stem in name.lower() for stem in _STEMS)
