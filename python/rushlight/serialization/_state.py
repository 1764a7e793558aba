"""What the options of this package are now, and the numbers of the file formats."""
import mmap
import threading

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
LONG_SIZE, INT_SIZE, SHORT_SIZE = 8, 4, 2

_options = {"endianness": None, "crc32": True, "mmap": getattr(mmap, "MAP_PRIVATE", None)}
_state = threading.local()
