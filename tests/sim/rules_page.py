"""docs/doubles-rules.md and a page for each wire: what the doubles refuse, and how we know. `python -m tests.sim.rules_page` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from midstream.sim.rules import HOSTS, Basis, Host, Rule
from midstream.sim.rules.hosts import NO_TOOLS

DOCS = Path(__file__).resolve().parents[2] / "docs"
BASES = get_args(Basis)
HEAD = """# What the doubles refuse, and how we know

A double is as strict as you ask it to be: `sim_server(strict=…)` and `Sim(strict=…)` in tests, `midstream sim serve --strict …`.

| strict | refuses |
|---|---|
| `"documented"`, the default | what is documented or observed of the host |
| `"paranoid"` | also what is assumed. Our own encoders are tested with it: they keep to the stricter reading |
| `False` | nothing |

| basis | means |
|---|---|
| documented | the provider's reference or guide says so, or its SDK's types require it |
| observed | an error text of the host or a recording shows it; a name and a number are the report, an issue or a pull request |
| assumed | we think so: nobody has shown it, reports conflict, or it is known of another host of the same wire |

Each problem has its `basis` beside its message, in `sim.refused` and in the findings of `midstream doctor`. If a double refuses what
its host takes, the label or the rule is wrong: please report it, with the request.

The name of a rule leads to the page of the [field guide](field-guide/index.md) that explains it. These pages are written from the
rules in `sim/rules/`.
"""
_TABLE = "| rule | basis | hosts | source |\n|---|---|---|---|"


def idle(host: str) -> set[str]:
    """The rules a host has from its wire that can find nothing there."""
    traits = HOSTS[host].traits
    can_speak = {
        "reasoning is there": traits.reasoning_field or traits.reasoning_message,  # a model that thinks
        "preserved reasoning is there": bool(traits.preserves),
        "choice and thinking": traits.wire == "openai-chat" and len(traits.forced_choice_thinking) < 2,
        "images are taken": not traits.images,
        "roles are known": not traits.developer_role,
        "system is well placed": not (traits.mid_system and traits.mid_tools),
    }
    return {name for name, speaks in can_speak.items() if not speaks}


def write_pages() -> dict[str, str]:
    """The pages by their paths below docs/: one for each wire, since all rules at once are too many to read."""
    wires: dict[str, list[Host]] = {}
    for host in HOSTS.values():
        wires.setdefault(host.traits.wire, []).append(host)
    pages = {f"doubles-rules/{wire}.md": "\n".join(_wire_page(wire, wires[wire])) for wire in sorted(wires)}
    links = [f"| [{wire}](doubles-rules/{wire}.md) | {_names(wires[wire])} |" for wire in sorted(wires)]
    first = [HEAD, "## The wires\n\n| wire | hosts |\n|---|---|", *links]
    other = _rows(NO_TOOLS, ["any host that takes no tools for a model"], "field-guide")
    return {"doubles-rules.md": "\n".join([*first, "", "## Any wire\n", _TABLE, *other, ""]), **pages}


def _names(hosts: list[Host]) -> str:
    return ", ".join([host.name for host in hosts])


def _wire_page(wire: str, hosts: list[Host]) -> Iterator[str]:
    yield f"# Rules of {wire}\n\nWhat the doubles of this wire refuse. How to read it: [what the doubles refuse](../doubles-rules.md).\n"
    yield _TABLE
    for rule in {id(rule): rule for host in hosts for rule in host.rules}.values():
        having = [host.name for host in hosts if rule in host.rules and rule.name not in idle(host.name)]
        yield from _rows(rule, having, "../field-guide")
    yield ""


def _rows(rule: Rule, hosts: list[str], guide: str) -> Iterator[str]:
    name = f"[{rule.name}]({guide}/{rule.guide})"
    for basis in BASES:
        found = [host for host in hosts if rule.basis_at(host) == basis]
        if found:
            source = rule.source if basis == rule.basis else "as above, of other hosts"
            yield f"| {name} | {basis} | {', '.join(found)} | {source} |"
    for apart in rule.apart:
        known = [host for host in hosts if rule.basis_at(host) != "assumed" or rule.basis == "assumed"]
        yield f"| {name}: {apart.words} | {apart.basis} | {', '.join(known)} | {apart.source} |"


if __name__ == "__main__":
    for name, text in write_pages().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, "utf-8")
