"""Entry point of the shim: `python -I -S start.py run|execute|probe NAME`, its configuration on descriptor 3.

Python caches the compiled form of imported modules only, not of the main program: so this file is short.
"""

import os
import sys

sys.path.append(__file__.rsplit("/", 4)[0])

if sys.argv[1] == "run":
    from shoal.kubelet.shim.supervision import main
elif sys.argv[1] == "execute":
    from shoal.kubelet.shim.command import main
else:
    from shoal.kubelet.shim.mounts import probe_mounts as main

main()
os._exit(0)  # everything is written; a regular interpreter shutdown would only cost time
