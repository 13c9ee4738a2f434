"""What each provider requires of a request, as rules that cite their source. `judge` says what a host would refuse."""

from .hosts import HOSTS, Host, host_for, judge
from .rule import Problem, Rule

__all__ = ["HOSTS", "Host", "Problem", "Rule", "host_for", "judge"]
