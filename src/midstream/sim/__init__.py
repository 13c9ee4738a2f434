"""Strict doubles of the providers: they refuse what the real ones refuse, in the same words."""
