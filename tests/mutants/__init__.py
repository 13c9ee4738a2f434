"""Mutants: small changes to the source that some test has to notice. `make mutants` draws a sample and lists those that nobody noticed."""
