"""The command line."""

import os

# numpy's linear algebra starts a thread for each core, which takes longer than reading a small
# trace; the commands have none for them to do.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
