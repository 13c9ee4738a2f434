"""Values per provider: how each host speaks its wire, where it is reached, and which models it serves."""
