"""Makes files with real headers, as the formats' documents describe them."""

import struct
import zlib


def png_chunk(kind: bytes, body: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + body))
    return struct.pack(">I", len(body)) + kind + body + check


def png(width: int, height: int, more: bytes = b"") -> bytes:
    """An image with these sides and without pixels. `more` is before its end."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = png_chunk(b"IHDR", head) + more + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def jpeg_frame(width: int, height: int) -> bytes:
    return struct.pack(">BBHBHHB", 0xFF, 0xC2, 11, 8, height, width, 1) + b"\1\x11\0"


def jpeg(width: int, height: int, more: bytes = b"") -> bytes:
    """An image with these sides. `more` is before its first segment."""
    filled = b"\xff\xe0\x00\x05abc\xff"  # a segment, and a byte that fills
    scan = b"\xff\xda\x00\x02" + b"a small picture \xff\0" * 20
    return b"\xff\xd8" + more + filled + jpeg_frame(width, height) + scan + b"\xff\xd9"


def webp(kind: bytes, facts: bytes) -> bytes:
    """An image whose first chunk begins with these facts."""
    chunk = kind + struct.pack("<I", len(facts)) + facts
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk


def lossy_webp(width: int, height: int) -> bytes:
    frame = b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return webp(b"VP8 ", frame + bytes(20))


def lossless_webp(width: int, height: int) -> bytes:
    sides = struct.pack("<I", (width - 1) | (height - 1) << 14)
    return webp(b"VP8L", b"\x2f" + sides + bytes(20))


def extended_webp(width: int, height: int, flags: int = 0x10) -> bytes:
    sides = (struct.pack("<I", side - 1)[:3] for side in (width, height))
    return webp(b"VP8X", struct.pack("<I", flags) + b"".join(sides))


PNG, JPEG = png(8, 8), jpeg(8, 8)
WEBP = lossy_webp(8, 8)


def nacp(
    name: str = "Homebrew", author: str = "Somebody", version: str = "1.2.3"
) -> bytes:
    """A control file; the first language is empty, as in many real ones."""
    title = name.encode().ljust(0x200, b"\0") + author.encode().ljust(0x100, b"\0")
    body = bytearray(0x4000)
    body[0x300:0x600] = title
    body[0x3060:0x3070] = version.encode().ljust(16, b"\0")
    return bytes(body)


def compressed_nacp(name: str, author: str) -> bytes:
    """A newer control file, with 32 titles in a raw deflate stream."""
    body = bytearray(nacp())
    titles = bytearray(32 * 0x300)
    titles[20 * 0x300 : 20 * 0x300 + len(name)] = name.encode()
    titles[20 * 0x300 + 0x200 : 20 * 0x300 + 0x200 + len(author)] = author.encode()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(titles)) + packer.flush()
    body[:0x3000] = bytes(0x3000)
    body[:2] = struct.pack("<H", len(packed))
    body[2 : 2 + len(packed)] = packed
    body[0x3215] = 1
    return bytes(body)


def nro(control: bytes = b"", icon: bytes = JPEG, program: int = 0x1000) -> bytes:
    """A homebrew program with icon, control file and a small RomFS."""
    control = control or nacp()
    header = bytearray(program)
    header[0x10:0x14] = b"NRO0"
    header[0x18:0x1C] = struct.pack("<I", program)
    spans, at, body = [], 0x38, b""
    for section in (icon, control, b"romfs" * 10):
        spans += [at, len(section)]
        at += len(section)
        body += section
    return bytes(header) + struct.pack("<4sI6Q", b"ASET", 0, *spans) + body


def pfs0(names: list[str], sizes: list[int]) -> bytes:
    """The header of a package; the content of its files is to follow."""
    table, rows, at = b"", b"", 0
    for name, size in zip(names, sizes, strict=True):
        rows += struct.pack("<QQII", at, size, len(table), 0)
        table += name.encode() + b"\0"
        at += size
    return struct.pack("<4sIII", b"PFS0", len(names), len(table), 0) + rows + table


def nsp(title_id: str = "0100AAAABBBB0000", content: bytes = b"content") -> bytes:
    names = ["0" * 32 + ".nca", title_id.lower() + "0" * 16 + ".tik"]
    return pfs0(names, [len(content), 4]) + content + b"tick"


def package(files: dict[str, bytes]) -> bytes:
    sizes = [len(body) for body in files.values()]
    return pfs0([*files], sizes) + b"".join(files.values())


def hfs0(files: dict[str, bytes]) -> bytes:
    """A part of a cartridge, or the archive of all its parts."""
    table, items, at = b"", b"", 0
    for name, body in files.items():
        items += struct.pack("<QQI44x", at, len(body), len(table))
        table += name.encode() + b"\0"
        at += len(body)
    head = struct.pack("<4sIII", b"HFS0", len(files), len(table), 0)
    return head + items + table + b"".join(files.values())


def content(number: int, document: tuple[str, int] | None = None) -> dict[str, bytes]:
    """The files of a content, with its title id and version in a document or in none,
    as dump tools write it."""
    name = f"{number:032x}"
    files = {f"{name}.nca": b"content", f"{name}.cnmt.nca": b"meta"}
    if document:
        files[f"{name}.cnmt.xml"] = (
            '<?xml version="1.0" encoding="utf-8"?>\n<ContentMeta>\n'
            f"  <Type>Application</Type>\n  <Id>0x{document[0].lower()}</Id>\n"
            f"  <Version>{document[1]}</Version>\n</ContentMeta>\n"
        ).encode()
    return files


def names_document(name: str, author: str) -> bytes:
    return (
        "<Application><Title><Language>Dutch</Language><Name></Name></Title><Title>"
        f"<Language>French</Language>\n<Name>{name}</Name>\n<Publisher>{author}"
        "</Publisher></Title></Application>"
    ).encode()


def cartridge(
    secure: dict[str, bytes], update: dict[str, bytes] | None = None, start: int = 0
) -> bytes:
    """A cartridge with these files for consoles, and those of a system's update.
    :param start: where it begins, behind a key area of 0x1000 bytes or none."""
    parts = {"update": hfs0(update or {}), "normal": b"", "secure": hfs0(secure)}
    body = hfs0(parts)
    header = bytearray(0x200)
    header[0x100:0x104] = b"HEAD"
    header[0x118:0x11C] = struct.pack("<I", (len(body) + 0x1FF) // 0x200)
    header[0x130:0x138] = struct.pack("<Q", 0x200)
    return bytes(start) + bytes(header) + body + bytes(-len(body) % 0x200)


def xci(blocks: int = 4, key_area: bool = False) -> bytes:
    """A cartridge whose data ends after so many blocks of 0x200 bytes."""
    header = bytearray(0x200)
    header[0x100:0x104] = b"HEAD"
    header[0x118:0x11C] = struct.pack("<I", blocks)
    before = bytes(0x1000) if key_area else b""
    return before + bytes(header) + bytes(blocks * 0x200)
