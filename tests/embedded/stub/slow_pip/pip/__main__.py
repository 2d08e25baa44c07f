from __future__ import annotations

import os
import sys
import time
from pathlib import Path

Path(os.environ["TMPDIR"], "part").write_bytes(bytes(9_300_000))
Path(sys.argv[sys.argv.index("--dest") + 1], "other.part").write_bytes(b"")
time.sleep(600)
