"""`gateway.toml`: every setting of the documented example counts, and every mistake says where it is and what is allowed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.core.errors import ConfigError
from midstream.gateway.config import Alias, GatewayConfig, load_config, parse_config

ROOT = Path(__file__).resolve().parents[2]
CASES: list[dict[str, Any]] = json.loads((ROOT / "tests/data/gateway/config_errors.json").read_text("utf-8"))
SECTIONS = ("server", "defaults", "models", "keys", "state", "vault")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_mistake_says_where_it_is_and_what_is_allowed(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"]) if "hex" in case else case["toml"].encode()
    with pytest.raises(ConfigError) as caught:
        parse_config(data, "gateway.toml")
    missing = [words for words in case["says"] if words not in str(caught.value)]
    assert missing == [], str(caught.value)


def test_every_setting_has_a_mistake_in_the_table() -> None:
    told = "\n".join(words for case in CASES for words in case["says"])
    config = GatewayConfig()
    names = [f"{section}.{name}" for section in SECTIONS for name in getattr(config, section).__struct_fields__]
    names += [f"aliases.fast.{name}" for name in Alias.__struct_fields__ if name != "name"]
    assert [name for name in names if name not in told] == []


def test_without_a_file_there_are_defaults() -> None:
    assert load_config(None) == GatewayConfig() == parse_config(b"", "")


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "gateway.toml")


def example() -> str:
    page = (ROOT / "docs" / "gateway-config.md").read_text("utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", page, re.M | re.S)
    return blocks[0]


def test_the_documented_example_shows_every_setting_with_its_default() -> None:
    config = parse_config(example().encode(), "gateway.toml")
    plain = GatewayConfig()
    text = f"\n{example()}"
    for section in SECTIONS:
        body = text.partition(f"\n[{section}]\n")[2].partition("\n[")[0]
        for field in msgspec.structs.fields(type(getattr(plain, section))):
            # What has no default value of its own stands there as a comment.
            assert re.search(rf"^#? ?{field.name} = ", body, re.M), f"{section}.{field.name} is not in the example"
            assert getattr(getattr(config, section), field.name) == getattr(getattr(plain, section), field.name)
    table = text.partition("\n[aliases.")[2]
    missing = [name for name in Alias.__struct_fields__ if name != "name" and f"\n{name} = " not in table]
    assert missing == []


def test_the_commented_settings_of_the_example_can_be_used() -> None:
    text = re.sub(r"^# ?(\w+ = )", r"\1", example(), flags=re.M)
    config = parse_config(text.encode(), "gateway.toml")
    assert config.models.allow and config.keys.required and config.keys.rate and config.keys.concurrency
    assert config.keys.budget is not None and config.keys.budget.window == "month"
    assert config.state.url


def test_every_setting_is_read() -> None:
    config = parse_config(
        b"""
        [server]
        host = "::"
        port = 1
        workers = 2
        drain = 0
        record = "cassettes"
        record_scrub = ["acct_[0-9]+"]
        log_format = "text"
        max_connections = 3
        max_in_flight = 4
        max_body_mb = 5
        max_header_kb = 6
        header_timeout = 7
        body_timeout = 8
        write_timeout = 9
        [defaults]
        text_calls = "execute"
        missing_reasoning = "fail"
        pass_client_keys = true
        pass_fields = ["top_k"]
        first_byte = 30
        idle = 60
        total = 900
        [models]
        allow = ["a/*"]
        [keys]
        required = false
        rate = 1
        concurrency = 2
        spend = "3/day"
        unpriced = "refuse"
        [state]
        url = "x.db"
        [vault]
        enabled = false
        seal = false
        keep_days = 1
        response_days = 2
        [aliases]
        one = "a/b"
        two = ["a/b", "c/d"]
        [aliases."three-*"]
        models = ["a/b", "c/d"]
        weights = [1, 0.5]
        sticky = false
        text_calls = "reask"
        missing_reasoning = "disable-thinking"
        pass_fields = []
        first_byte = 20
        idle = 40
        total = 300
        display_name = "Three"
        """,
        "x",
    )
    told = msgspec.to_builtins(config)
    plain = msgspec.to_builtins(GatewayConfig())
    for section in SECTIONS:
        assert [name for name in told[section] if told[section][name] == plain[section][name]] == []
    assert config.aliases[:2] == (Alias("one", ("a/b",)), Alias("two", ("a/b", "c/d")))
    assert config.aliases[2] == Alias(
        "three-*", ("a/b", "c/d"), (1, 0.5), False, "reask", "disable-thinking", (), "Three", 20, 40, 300
    )
