"""What is checked of a host, by name, and the verdicts.

A check about every answer is judged on each of them, the others by a probe of their own. One failure fails a check: a host that
leaks one call in ten does not keep its word. `not offered` is no failure: a host need not have everything, it must not pretend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from ..core.blocks import Value
from .statistics import Rate

Verdict: TypeAlias = Literal["pass", "fail", "not offered", "not sure"]
PASS: Verdict = "pass"
FAIL: Verdict = "fail"
ABSENT: Verdict = "not offered"
UNSURE: Verdict = "not sure"


class Check(Value, frozen=True):
    """What a check proves, in words, and why somebody would want to know."""

    proves: str
    why: str = ""


# In the order in which they are shown: what concerns every answer first. A name is stable; scripts compare reports by it.
CHECKS: dict[str, Check] = {
    "dialect.fits": Check("what midstream knows of the host is enough: nothing that it sends is refused", "a hand-off to this host is refused; `midstream models add` makes a dialect that fits"),
    "answer.said": Check("an answer has text or a call, not reasoning alone", "an agent stops on an empty answer"),
    "leak.text": Check("no marker of calls or thinking is left in the text", "the call is never run, and the user sees its markers"),
    "leak.reasoning": Check("no marker of calls is left in the reasoning", "the call is never run, and nobody sees it"),
    "leak.arguments": Check("no marker is left in the arguments of a call", "a tool is run with the marker in its input"),
    "finish.said": Check("an answer says why it ended", "without it, a cut answer and a whole one look alike"),
    "finish.calls": Check("an answer with calls ends with the word for calls", "agents that look at the word alone stop"),
    "finish.without-calls": Check("an answer without calls does not end with the word for calls", "agents wait for a call that is not there"),
    "finish.announced": Check("an answer does not announce a call and stop", "the model meant to call; the host lost the call"),
    "ids.present": Check("every call has an id", "its result has nothing to refer to"),
    "ids.unique": Check("the ids of one answer differ", "two results go to one call"),
    "ids.stable": Check("all pieces of a streamed call have one id", "clients take each piece for a call"),
    "ids.across-turns": Check("ids do not begin again in the next answer", "results of earlier turns are found by them; Kimi counts through the whole conversation"),
    "ids.echo-given": Check("calls still come after four rounds with the ids as the host gave them", "this is what most clients send"),
    "ids.echo-rewritten": Check("calls still come after four rounds with the ids as midstream writes them", "the model may imitate a foreign id, and the host then loses the call"),
    "index.dense": Check("the indexes of streamed calls are 0, 1, 2 …", "clients keep calls in a list by their index"),
    "calls.apart": Check("two calls do not run together", "neither can be run"),
    "names.declared": Check("the name of a call is one of the declared tools", "there is no such tool to run"),
    "names.once": Check("the name comes once, with the first piece of a call", "clients that join the pieces get read_noteread_note"),
    "arguments.json": Check("the arguments of a call are a JSON object", "the call cannot be run"),
    "arguments.schema": Check("the arguments of a call fit its schema", "the tool fails, or does something else"),
    "schema.streamed": Check("streamed arguments fit all of a dozen difficult schemas", "grammars and parsers differ between the two paths"),
    "schema.plain": Check("arguments of plain answers fit the same schemas", "grammars and parsers differ between the two paths"),
    "plain.shape": Check("a plain answer has the same fields, ids, words and places as a stream", "hosts have two code paths, and tests see one"),
    "usage.present": Check("every answer counts its tokens", "costs and windows are not known"),
    "usage.once": Check("a stream counts its tokens once", "clients that add up count twice"),
    "usage.sums": Check("the total is the sum of its parts, and none is negative", "the bill does not add up"),
    "usage.repeat": Check("the same prompt has the same number of tokens", "the prompt is not the same: something was added or lost"),
    "usage.cached": Check("a repeated prefix is read from the cache, and counted", "what a long conversation costs depends on it"),
    "usage.counts-text": Check("a longer message has more tokens", "a part of the prompt does not reach the model"),
    "usage.counts-system": Check("a system prompt is counted", "the system prompt does not reach the model"),
    "usage.counts-tools": Check("declared tools are counted", "the tools do not reach the model"),
    "results.read": Check("the result of a tool is read", "the model makes its content up"),
    "reasoning.field": Check("reasoning comes in a field that midstream reads for this host", "it is lost, and cannot be sent back"),
    "reasoning.echo": Check("reasoning that comes back is accepted", "a second step of a tool loop is refused"),
    "reasoning.missing": Check("a call without its reasoning is refused only where midstream knows it", "a history of another model is refused"),
    "reasoning.used": Check("reasoning that comes back is read: the prompt has more tokens with it", "the model forgets why it called"),
    "reasoning.blank": Check("blank reasoning is accepted where reasoning must come back", "it stands for what another model did not say"),
    "choice.none": Check("tool_choice none: no call", "tools run that must not"),
    "choice.required": Check("tool_choice required: a call", "structured answers rest on it"),
    "choice.named": Check("a named tool is the one that is called", "structured answers rest on it"),
    "parallel.off": Check("parallel_tool_calls false: one call at a time", "tools that must follow one another run together"),
    "limit.tokens": Check("max_tokens is kept, and the end says so", "costs have no bound"),
    "limit.stop": Check("an answer ends before a stop word", "text formats rest on it"),
    "params.sampling": Check("temperature and top_p are accepted", "a host that refuses them has to be known"),
    "format.schema": Check("an answer that must follow a schema follows it", "structured output rests on it"),
    "refuses.messages": Check("a request without messages is refused with 4xx and an error body", "errors cannot be told apart"),
    "refuses.pairing": Check("the result of a call that was never made is refused", "a broken history goes unnoticed, and the model is confused"),
    "handoff.foreign": Check("a history of three other providers is accepted", "the model cannot be switched"),
    "handoff.interrupted": Check("a history with a call that nobody answered is accepted", "after Ctrl-C the conversation is dead"),
    "loop.calls": Check("eight rounds of scripted tools: each is called", "long tasks end early"),
    "loop.arguments": Check("eight rounds: all arguments are those that were due", "long tasks go wrong"),
    "samples.answered": Check("every line is answered at the first try", "refused and failed requests are no answers, and are counted apart"),
    "samples.trigger": Check("tools are called on the lines on which the reference calls them (F1)", "a lower F1 than the reference has with itself is a difference of the host"),
    "samples.schema": Check("the arguments of calls fit their schemas on at least 98 % of the lines", "the tool fails, or does something else"),
    "samples.finish": Check("finish reasons agree with what was said", "agents that look at the word alone stop, or wait for a call that is not there"),
    "samples.said": Check("no line is answered with reasoning alone", "an agent stops on an empty answer"),
    "against.prompt-tokens": Check("the same requests have as many tokens as at the host it is compared with", "another template, a hidden system prompt or lost tools change the count"),
    "against.difference": Check("the host is not worse than the one it is compared with, line by line (McNemar)", "two rates differ by chance; pairs tell"),
}  # fmt: skip
"""Every check, by name."""


class Finding(Value, frozen=True):
    """One judgement: a check, how it came out, and the line that shows why."""

    check: str
    verdict: Verdict
    evidence: str = ""
    probe: str = ""


class Findings:
    """What a probe found: judgements, and facts about the host for `verified.toml`."""

    def __init__(self, probe: str = "", clean: Callable[[str], str] = str) -> None:
        self.probe = probe
        self.clean = clean
        self.found: list[Finding] = []
        self.facts: dict[str, Any] = {}

    def add(self, check: str, verdict: Verdict, evidence: str) -> None:
        assert check in CHECKS, check
        self.found.append(Finding(check, verdict, self.clean(evidence), self.probe))

    def expect(self, check: str, kept: bool, evidence: str, otherwise: str = "") -> None:
        """Passed with this evidence, or failed with the other."""
        self.add(check, PASS if kept else FAIL, evidence if kept else otherwise or evidence)

    def fact(self, name: str, value: Any) -> None:
        self.facts[name] = self.clean(value) if isinstance(value, str) else value


class Result(Value, frozen=True):
    """A check over all its judgements: the verdict, how many passed, and the evidence of the worst."""

    check: str
    verdict: Verdict
    evidence: str
    passed: int = 0
    failed: int = 0
    unsure: int = 0

    @property
    def rate(self) -> Rate:
        return Rate(self.passed, self.passed + self.failed)


def results(findings: Iterable[Finding]) -> dict[str, Result]:
    """One result for each check that was judged, in the order of the table."""
    by_check: dict[str, list[Finding]] = {}
    for finding in findings:
        by_check.setdefault(finding.check, []).append(finding)
    return {name: _result(name, by_check[name]) for name in CHECKS if name in by_check}


# The worst judgement that says something: an absence beside a pass (one path has it, another not) is a pass.
_ORDER: tuple[Verdict, ...] = (FAIL, PASS, UNSURE, ABSENT)


def _result(name: str, found: list[Finding]) -> Result:
    count: Mapping[Verdict, int] = {verdict: sum(1 for each in found if each.verdict == verdict) for verdict in _ORDER}
    verdict = next(each for each in _ORDER if count[each])
    # The last one that passed says most of a probe that learns on its way; the first that failed is the cause of the rest.
    shown = next(each for each in found if each.verdict == verdict)
    return Result(name, verdict, shown.evidence, count[PASS], count[FAIL], count[UNSURE])
