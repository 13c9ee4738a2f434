"""Values and laws. Imports msgspec and the standard library only; no I/O, no clock, no randomness."""
