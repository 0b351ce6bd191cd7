"""A stand-in for a training program that needs no PyTorch: rank 0 listens, rank 1 connects, both count.

It exists so that the machinery of drills can be tested in a second; what PyTorch really prints is tested with PyTorch.
"""

import os
import socket
import sys
import time

rank = int(os.environ["RANK"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
timeout = float(os.environ["FIRSTFAULT_TIMEOUT"])
print(f"[init] host={socket.gethostname()} rank={rank} ws=2 master={address[0]}:{address[1]}", flush=True)
try:
    if rank == 0:
        with socket.create_server(("", address[1])) as server:
            server.settimeout(timeout)
            server.accept()[0].close()
    else:
        end = time.monotonic() + timeout
        while True:
            try:
                socket.create_connection(address, timeout=timeout).close()
                break
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
except TimeoutError:
    who = "waiting for clients. 1/2 clients joined." if rank == 0 else "connecting"
    milliseconds = round(timeout * 1000)
    if rank == 0:
        sys.exit(f"torch.distributed.DistStoreError: Timed out after {milliseconds // 1000} seconds {who}")
    sys.exit(
        f"torch.distributed.DistNetworkError: The client socket has timed out after {milliseconds}ms "
        f"while trying to connect to ({address[0]}, {address[1]})."
    )
for iteration, value in enumerate((3, 6, 12, 24, 48)):
    print(f"[rank {rank}] iter {iteration} sum-first={float(value)}", flush=True)
