"""What each provider requires of a request, as rules that cite their source. `judge` says what a host would refuse."""

from .hosts import HOSTS, Host, Strict, host_for, judge
from .rule import Basis, Problem, Rule

__all__ = ["HOSTS", "Basis", "Host", "Problem", "Rule", "Strict", "host_for", "judge"]
