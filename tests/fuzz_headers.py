#!/usr/bin/env python3
"""Reads COUNT broken headers of each format, and fails if one of them raises, costs
much more than a whole one, or has more read of it than is allowed. test_names.py runs
it."""

import io
import random
import resource
import sys
import time

import catalogd
import containers

CONTENTS = containers.content(1, ("0100AAAABBBB0000", 0)) | containers.content(2)
CONTENTS |= {"1.nacp.xml": containers.names_document("A", "B")}
CONTENTS |= {"1.nx.French.jpg": containers.JPEG}
SEEDS = {
    "nro": [containers.nro(), containers.nro(containers.compressed_nacp("A", "B"))],
    "nsp": [containers.nsp(), containers.pfs0(["a" * 40] * 200, [2**40] * 200)],
    "nsz": [containers.nsp(), containers.package(CONTENTS)],
    "xci": [containers.xci(), containers.cartridge(CONTENTS, CONTENTS, 0x1000)],
}
MAX_RATIO = 300  # of the cost of a broken header to that of a whole one
SPECIAL = [b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f", b"\x01\0\0\0", b"\x80" * 4]


class Counted(io.BytesIO):
    """A file that counts what is read of it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.count += len(found)
        return found


def broken(chance: random.Random, seed: bytes) -> bytes:
    """A header with some bytes changed, and cut short or not."""
    body = bytearray(seed)
    for _ in range(chance.choice((1, 2, 4, 16))):
        # Most of what matters is in the first bytes and in the asset section.
        at = chance.choice((chance.randrange(0x200), 0x1000 + chance.randrange(0x38)))
        at %= len(body)
        value = chance.choice((*SPECIAL, bytes([chance.randrange(256)])))
        body[at : at + len(value)] = value
    if chance.random() < 0.2:
        del body[chance.randrange(len(body)) :]
    return bytes(body)


def cost(kind: str, body: bytes) -> float:
    """Return the processor time of reading a header."""
    file = Counted(body)
    began = time.thread_time()
    found = catalogd.file_facts(f"Name.{kind}", file, len(body))
    took = time.thread_time() - began
    assert found["name"], body
    assert file.count <= catalogd.Window.max_bytes, body
    return took


def best_cost(kind: str, body: bytes) -> float:
    """Return what it costs when no other program slows it down."""
    return min(cost(kind, body) for _ in range(5))


def main() -> None:
    count = int(sys.argv[1])
    chance = random.Random(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, seeds in SEEDS.items():
        whole = max(best_cost(kind, seed) for seed in seeds)
        bodies = (broken(chance, seeds[number % len(seeds)]) for number in range(count))
        _, slowest = max((cost(kind, body), body) for body in bodies)
        ratio = best_cost(kind, slowest) / whole
        assert ratio < MAX_RATIO, slowest
        print(f"{kind}: {count} headers, the slowest costs {ratio:.1f} whole ones")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000, f"memory grew by {grown} KiB"


if __name__ == "__main__":
    main()
