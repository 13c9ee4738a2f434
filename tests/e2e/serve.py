"""Serve a GGUF file with llama.cpp's own HTTP server on loopback: `python serve.py MODEL PORT [KEY]`, until standard input closes."""

from __future__ import annotations

import os
import sys

import xllamacpp


def main(model: str, port: str, key: str = "") -> None:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_ctx = 0  # as the model says
    params.n_parallel = 1
    params.warmup = False
    params.use_jinja = True
    params.offline = True
    params.verbosity = 0
    params.cpuparams.n_threads = 1  # the model is tiny: threads would only wait for each other
    params.sampling.seed = 7  # for the wires that have no field for one
    if key:
        params.api_keys = [key]
    server = xllamacpp.Server(params)
    print(f"ready {server.listening_address}", flush=True)
    sys.stdin.read()  # the tests hold the other end; when they are gone, so is this
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
