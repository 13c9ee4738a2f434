"""Files that run code later, without anybody naming them: hooks, start-up files, editors' and CI's settings, build files.

A tool picks such a file up by its place or its name (`git commit`, `cd`, opening a folder, `make`), so whoever writes it
decides what runs then. Names are compared as a forgiving file system would (case, composed characters, ignored ones), and
every part of the path counts, that of the working folder too. Ordinary sources and tests are not listed, although they
run as well: a person asks for those by name.
"""

from __future__ import annotations

import re
import unicodedata
from fnmatch import fnmatchcase

_HOOKS = (
    "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit "
    "pre-rebase post-checkout post-merge pre-push pre-receive update post-receive post-update reference-transaction "
    "push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change"
)

# What happens -> the names of such files; with a slash at the end, of folders, and everything below them counts.
_TABLE: dict[str, str] = {
    "git reads and runs what is in here": ".git/ *.git/ git~1/ .gitconfig .gitmodules .config/git/",
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
    "Python imports it by itself": "sitecustomize.py usercustomize.py *.pth site-packages/ dist-packages/ conftest.py",
    "programs that others start live here": (
        "node_modules/ .venv/ venv/ .tox/ .nox/ .virtualenvs/ .local/bin/ .local/lib/ .bin/ .cargo/ .rustup/ .go/bin/ .yarn/ .pnp.* .bundle/ .gem/ .mvn/ "
        ".gradle/ .sbt/ .stack/ .cabal/ .opam/ .dotnet/ .nuget/ .terraform/"
    ),
    "CI runs it": (
        ".github/ .gitlab-ci.y*ml .gitlab-ci/ .circleci/ .buildkite/ .ci/ .gitea/ .forgejo/ .woodpecker/ .woodpecker.y*ml .drone.y*ml "
        ".travis.yml .appveyor.yml appveyor.yml .cirrus.y*ml azure-pipelines*.y*ml .azure-pipelines/ .azuredevops/ jenkinsfile* "
        "bitbucket-pipelines.yml cloudbuild.y*ml buildspec.y*ml .teamcity/ .semaphore/ .sourcehut/ .build.yml .builds/ .tekton/ "
        "codefresh.y*ml .harness/ wercker.yml netlify.toml vercel.json fly.toml render.y*ml procfile .readthedocs.y*ml"
    ),
    "a build or a package manager runs what it says": (
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
    "it holds keys, or decides who may log in": (
        ".ssh/ .gnupg/ .aws/ .azure/ .kube/ .docker/ .netrc .pgpass .config/gcloud/ .config/gh/ authorized_keys known_hosts sudoers sudoers.d/ "
        "id_rsa* id_ed25519* id_ecdsa*"
    ),
}

# Characters that some file systems leave out of a name when they compare it.
_IGNORED = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_ROWS = [
    (tuple(name.rstrip("/").split("/")), name.endswith("/"), why) for why, row in _TABLE.items() for name in row.split()
]


def runs_later(path: str) -> str:
    """Why what is written to this path may run later, or "". The path is the real one, without links or `..`."""
    parts = [_folded(part) for part in path.split("/") if part not in ("", ".")]
    for names, is_folder, why in _ROWS:
        size = len(names)
        starts = range(len(parts) - size + 1) if is_folder else [len(parts) - size]
        for at in starts:
            if at >= 0 and all(fnmatchcase(part, name) for part, name in zip(parts[at:], names, strict=False)):
                return why
    return ""


def _folded(part: str) -> str:
    plain = _IGNORED.sub("", unicodedata.normalize("NFKC", part)).casefold()
    return unicodedata.normalize("NFKC", plain).rstrip(" .") or part
