"""The program: `python -I -S start.py run|execute|probe NAME`, with what to do on descriptor 3.

Python keeps no compiled form of a program, only of what it imports: so this one is short.
"""

import os
import sys

sys.path.append(__file__.rsplit("/", 4)[0])

if sys.argv[1] == "run":
    from shoal.kubelet.shim.supervision import main
elif sys.argv[1] == "execute":
    from shoal.kubelet.shim.execute import main
else:
    from shoal.kubelet.shim.probe import main

main()
os._exit(0)  # all is written: to take the interpreter apart would only cost time
