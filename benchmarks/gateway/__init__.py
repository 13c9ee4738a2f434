"""midstream's gateway beside others: what a request, a streamed chunk and an open stream cost. Run `make bench-gateway`."""
