"""Keeps this folder importable, so that every test can `import shared_data`."""
