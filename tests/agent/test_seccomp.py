"""The filter of system calls, run by an interpreter of our own: so the architecture that this machine is not is tried too."""

from __future__ import annotations

import errno
import json
import re
import struct
from pathlib import Path

import pytest

from midstream.agent.seccomp import INTERNET, MACHINES, NUMBERS, filter_program, number

CALLS = json.loads((Path(__file__).parents[1] / "data" / "sandbox" / "calls.json").read_text("utf-8"))
READ = {"x86_64": 0, "aarch64": 63}
OTHER = {"x86_64": 0x40000003, "aarch64": 0x40000028}  # i386, arm


def verdict(program: bytes, audit: int, call: int, arguments: list[int]) -> str:
    """What the kernel would do: classic BPF over struct seccomp_data."""
    data = struct.pack("=iIQ6Q", call, audit, 0, *(arguments + [0] * 6)[:6])
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = 0
    while True:
        operation, yes, no, value = code[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x15:
                at += yes if accumulator == value else no
            case 0x35:
                at += yes if accumulator >= value else no
            case 0x45:
                at += yes if accumulator & value else no
            case 0x54:
                accumulator &= value
            case 0x06:
                if value >> 16 == 5:
                    return errno.errorcode[value & 0xFFFF].replace("ENOTSUP", "EOPNOTSUPP")
                return {0x7FFF0000: "allow", 0x7FC00000: "notify"}[value]
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("landlock", [False, True], ids=["bubblewrap", "landlock"])
@pytest.mark.parametrize("families", [INTERNET, ()], ids=["internet", "no sockets"])
def test_each_call_gets_its_verdict(machine: str, landlock: bool, families: tuple[int, ...]) -> None:
    program = filter_program(machine, families=families, landlock=landlock)
    for name, arguments, expected in [*CALLS["both"], *CALLS["landlock" if landlock else "bubblewrap"]]:
        call = READ[machine] if name == "read" else number(name, machine)
        if expected == "internet":
            expected = "allow" if families else "EPERM"
        assert call is not None
        assert verdict(program, MACHINES[machine].audit, call, arguments) == expected, (name, arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_are_refused(machine: str) -> None:
    program = filter_program(machine, families=INTERNET)
    assert verdict(program, OTHER[machine], READ[machine], []) == "EPERM"
    assert verdict(program, MACHINES["x86_64"].audit, 0x40000000 + 41, [2, 1]) == "EPERM", "the x32 calls"


@pytest.mark.parametrize("machine", MACHINES)
def test_the_program_is_one_that_the_kernel_takes(machine: str) -> None:
    for landlock in (False, True):
        program = filter_program(machine, families=INTERNET, landlock=landlock)
        assert len(program) % 8 == 0 and len(program) // 8 <= 4096
    numbers = [each for name in NUMBERS if (each := number(name, machine)) is not None]
    assert len(numbers) == len(set(numbers))


KERNEL = json.loads((Path(__file__).parents[1] / "data" / "sandbox" / "kernel.json").read_text("utf-8"))
HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+)\s+(\d+)$"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+)\s+(\d+)$"),
}


def test_every_call_has_the_kernels_number() -> None:
    assert {name: list(numbers) for name, numbers in NUMBERS.items()} == KERNEL["numbers"]
    shared = [name for name, numbers in NUMBERS.items() if numbers[0] is not None and numbers[0] >= 424]
    assert all(NUMBERS[name][0] == NUMBERS[name][1] for name in shared), "newer calls have one number everywhere"


@pytest.mark.parametrize("machine", MACHINES)
def test_the_table_is_what_the_headers_say(machine: str) -> None:
    path, define = HEADERS[machine]
    if not path.exists():
        pytest.skip(f"NOT TESTED: {path} is not here (the package linux-libc-dev has it)")
    said = {name: int(number) for name, number in re.findall(define, path.read_text("utf-8"), re.M)}
    column = MACHINES[machine].column
    ours = {name: numbers[column] for name, numbers in KERNEL["numbers"].items() if name in said}
    assert len(ours) > 60
    assert {name: said[name] for name in ours} == ours
