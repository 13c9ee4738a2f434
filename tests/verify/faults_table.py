"""Sensitivity and specificity: every fault that a double can play, the check that must find it, and the probe that shows it.

`python -m tests.verify.faults_table` plays them all with every suite, then the double of every provider without a fault, and prints
one table of who was found by what. It ends with 1 if a fault was missed, or anything was found of a faithful double.
"""

from __future__ import annotations

from typing import NamedTuple

from midstream.dialects.registry import REGISTRY
from midstream.sim.players import make_players
from midstream.toolformats.registry import FORMATS

GPT, KIMI = "openai/gpt-4o", "moonshot/kimi-k2.5"


class Row(NamedTuple):
    check: str
    probe: str
    model: str = GPT


FOUND_BY: dict[str, Row] = {
    "accept-anything": Row("refuses.messages", "no-messages"),
    "refuse-own-ids": Row("ids.echo-given", "ids-given"),
    "leak": Row("leak.text", "call"),
    **{f"leak-{name}": Row("leak.text", "call") for name in FORMATS},
    "leak-thinking": Row("leak.reasoning", "call", KIMI),
    "leak-arguments": Row("leak.arguments", "call"),
    "leak-tags": Row("leak.text", "hello", KIMI),
    "announce": Row("finish.announced", "call"),
    "empty": Row("answer.said", "hello", KIMI),
    "tire": Row("loop.calls", "loop"),
    "lost-by-ids": Row("ids.echo-rewritten", "ids-rewritten"),
    "deaf": Row("results.read", "rounds"),
    "broken-schema": Row("arguments.schema", "call"),
    "ignore-choice": Row("choice.required", "choice-required"),
    "ignore-limit": Row("limit.tokens", "limit"),
    "ignore-stop": Row("limit.stop", "stop"),
    "ignore-parallel": Row("parallel.off", "parallel-off"),
    "ignore-format": Row("format.schema", "format"),
    "ignore-echo": Row("reasoning.used", "reasoning", KIMI),
    "ignore-system": Row("usage.counts-system", "deltas"),
    "ignore-tools": Row("usage.counts-tools", "deltas"),
    "drift-usage": Row("usage.repeat", "hello"),
    "repeat-ids": Row("ids.unique", "two-calls"),
    "restart-ids": Row("ids.across-turns", "rounds", KIMI),
    "rename-ids": Row("ids.stable", "call"),
    "no-ids": Row("ids.present", "call"),
    "merge-index": Row("calls.apart", "two-calls"),
    "restart-index": Row("index.dense", "two-calls"),
    "sparse-index": Row("index.dense", "call"),
    "repeat-names": Row("names.once", "call"),
    "late-names": Row("names.once", "call"),
    "cut-names": Row("names.declared", "call"),
    "broken-json": Row("arguments.json", "call"),
    "no-finish": Row("finish.said", "hello"),
    "wrong-finish": Row("finish.calls", "call"),
    "false-finish": Row("finish.without-calls", "hello"),
    "no-usage": Row("usage.present", "hello"),
    "double-usage": Row("usage.once", "hello"),
    "wrong-sum": Row("usage.sums", "hello"),
    "plain-differs": Row("plain.shape", "call"),
}
"""The faults of a host that answers. Those by which it does not answer at all (429, 500, cut, stall) end a run as unfinished."""
NO_ANSWER = ("429", "500", "cut", "stall")


# A raw path is played for DeepInfra's K2 alone (sim/routes.py), so elsewhere a model is taken that goes over the host's chat.
def each_provider() -> list[str]:
    """A model of every provider that has a double."""
    found: dict[str, str] = {"deepinfra": "deepinfra/moonshotai/Kimi-K2.5"}
    names = [player.target.model for player in make_players().values()]
    for provider in REGISTRY.providers.values():
        for model in (*provider.models, *names):
            dialect = provider.dialect_for(model)
            if dialect is not None and dialect.wire != "completion" and dialect.native is None:
                found.setdefault(provider.name, f"{provider.name}/{model}")
    return list(found.values())


def main() -> None:
    from tests.verify.stage import ALL, verified

    print(f"{'double':44} {'fault':18} {'must be found by':22} {'':6} failed or not sure")
    wrong = 0
    for fault, row in FOUND_BY.items():
        _, found = verified(row.model, ALL, fault)
        failed = [name for name, result in found.items() if result.verdict == "fail"]
        wrong += row.check not in failed
        hit = "found" if row.check in failed else "MISSED"
        print(f"{row.model:44} {fault:18} {row.check:22} {hit:6} {', '.join(failed)}", flush=True)
    faithful = each_provider()
    for model in faithful:
        _, found = verified(model, ALL)
        failed = [name for name, result in found.items() if result.verdict in ("fail", "not sure")]
        passed = sum(result.verdict == "pass" for result in found.values())
        wrong += bool(failed)
        hit = "FALSE" if failed else "passes"
        print(f"{model:44} {'none':18} {f'{passed} checks pass':22} {hit:6} {', '.join(failed) or '-'}", flush=True)
    print(f"{len(FOUND_BY)} faults, {len(faithful)} providers without a fault: {wrong} wrong")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
