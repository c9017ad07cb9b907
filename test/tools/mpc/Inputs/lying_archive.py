"""Writes an .npz of 4 MB whose only member claims to be 4 GB.

SPDX-License-Identifier: Apache-2.0
"""

import struct
import sys
import zipfile
import zlib

DEFLATED, CLAIMED = 8, 4_000_000_000


def make_stream():
    """Returns the start of an array of that size, which ends too soon."""
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({CLAIMED - 128},), }}"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + text.encode().ljust(118)
    stream = zlib.compressobj(level=0, wbits=-15)
    return stream.compress(header + b"\0" * 4_000_000) + stream.flush()


def main():
    path = sys.argv[1]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("x.npy", make_stream())
        directory = archive.start_dir
    with open(path, "r+b") as file:
        # The member's own header, and its entry in the directory.
        for method, size in ((8, 22), (directory + 10, directory + 24)):
            file.seek(method)
            file.write(struct.pack("<H", DEFLATED))
            file.seek(size)
            file.write(struct.pack("<I", CLAIMED))


if __name__ == "__main__":
    main()
