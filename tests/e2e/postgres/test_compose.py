"""With the environment that compose.yaml gives it, the gateway's container can log in to its own database: by a password, as
another user than the one whose files lie beside compose.yaml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.postgres_cluster import Cluster

ROOT = Path(__file__).parents[3]
PASSWORD = "a-password-of-nobody"
NOBODY = 65534


def environment(folder: Path, mode: int) -> dict[str, str]:
    """What compose makes of the gateway's environment: variables of .env filled in, and a secret where its file is mounted, with
    the owner and the mode that it has on the machine."""
    text = (ROOT / "compose.yaml").read_text("utf-8")
    gateway = text.partition("  gateway:")[2].partition("  database:")[0]
    block = gateway.partition("    environment:\n")[2]
    found = dict(re.findall(r"^      (\w+): (.+)$", block.partition("    env_file")[0], re.M))
    for name, value in found.items():
        value = re.sub(r"\$\{DATABASE_PASSWORD(:\?[^}]*)?\}", PASSWORD, value)
        if secret := re.fullmatch(r"/run/secrets/(\w+)", value):
            file = folder / secret[1]
            file.write_text(f"*:*:midstream:midstream:{PASSWORD}\n")
            file.chmod(mode)
            value = str(file)
        found[name] = value
    return found


@pytest.mark.parametrize("mode", [0o600, 0o644], ids=["mine alone", "readable by all"])
def test_the_gateway_logs_in(cluster: Cluster, mode: int) -> None:
    client = shutil.which("psql")
    if client is None:
        pytest.skip("DID NOT RUN: psql is missing: run `make e2e-tools`")
    with psycopg.connect(cluster.address, autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS midstream")
        db.execute("DROP ROLE IF EXISTS midstream")
        db.execute(f"CREATE ROLE midstream LOGIN PASSWORD '{PASSWORD}'")
        db.execute("CREATE DATABASE midstream OWNER midstream")
        rules = Path(str(db.execute("SHOW hba_file").fetchone()[0]))  # type: ignore[index]
        before = rules.read_text()
        rules.write_text(f"local midstream midstream scram-sha-256\n{before}")
        db.execute("SELECT pg_reload_conf()")
    folder = cluster.folder / f"secrets-{mode:o}"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    cluster.folder.chmod(0o755)  # the socket is in it
    try:
        command = [client, "-w", "-h", str(cluster.folder), "-U", "midstream", "midstream", "-tAc", "select 'in'"]
        user = NOBODY if os.geteuid() == 0 else None
        env = {"PATH": os.defpath, "HOME": "/", **environment(folder, mode)}
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, check=False, user=user, group=user, cwd="/"
        )
        assert (done.returncode, done.stdout.strip()) == (0, "in"), done.stderr
    finally:
        rules.write_text(before)
