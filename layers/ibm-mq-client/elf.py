"""Which libraries a shared library needs: the part of ELF that the dynamic loader reads."""

import struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
ENTRY = struct.Struct("<QQ")

IDENTITY = b"\x7fELF\x02\x01"  # 64 bits, little-endian
SHARED_OBJECT, X86_64 = 3, 62
PT_LOAD, PT_DYNAMIC = 1, 2
DT_NULL, DT_NEEDED, DT_STRTAB = 0, 1, 5


class NotALibrary(Exception):
    """The content is no shared library for Linux on x86-64."""


def needed(content):
    """The names of the libraries that the loader looks for when it loads this one."""
    try:
        identity, kind, machine, _, _, segments_at, _, _, _, size, count, _, _, _ = HEADER.unpack_from(content)
        if not identity.startswith(IDENTITY) or kind != SHARED_OBJECT or machine != X86_64:
            raise NotALibrary
        segments = [SEGMENT.unpack_from(content, segments_at + number * size) for number in range(count)]
        entries = _dynamic(content, segments)
        [strings] = [_offset(segments, value) for tag, value in entries if tag == DT_STRTAB] or [0]
        return [_text(content, strings + value) for tag, value in entries if tag == DT_NEEDED]
    except (struct.error, ValueError):
        raise NotALibrary from None


def _dynamic(content, segments):
    """The tags of the dynamic section with their values. A library that needs nothing may have none."""
    entries = []
    for kind, _, offset, _, _, size, _, _ in segments:
        for at in range(offset, offset + size, ENTRY.size) if kind == PT_DYNAMIC else ():
            tag, value = ENTRY.unpack_from(content, at)
            if tag == DT_NULL:
                break
            entries.append((tag, value))
    return entries


def _offset(segments, address):
    """Where in the file an address is loaded from."""
    for kind, _, offset, start, _, size, _, _ in segments:
        if kind == PT_LOAD and start <= address < start + size:
            return address - start + offset
    raise ValueError(address)


def _text(content, at):
    return content[at : content.index(b"\0", at)].decode("ascii")
