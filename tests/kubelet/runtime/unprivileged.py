"""A daemon of an ordinary user: starts containers and prints the results.

`python -m tests.kubelet.runtime.unprivileged [--confined] HOME`, started as root: it switches to the user
nobody first. With `--confined` it cannot create user namespaces: the kernel forbids that in a chroot.
"""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from shoal.kubelet.runtime import Mount, open_runtime
from shoal.kubelet.shim import system
from tests.kubelet.runtime.containers import log_text, remove_pod, shell

NOBODY = 65534


def make_reachable(path: Path) -> None:
    """Make a directory reachable for other users, in this mount namespace only."""
    for closed in reversed([above for above in path.parents if not above.stat().st_mode & 0o001]):
        kept = os.open(path, os.O_PATH)
        system.mount("shoal-test", str(closed), "tmpfs", 0, "mode=755")
        path.mkdir(parents=True)
        system.mount(f"/proc/self/fd/{kept}", str(path), "", system.MS_BIND | system.MS_REC)
        os.close(kept)


def confine(root: Path) -> None:
    root.mkdir()
    system.mount("/", str(root), "", system.MS_BIND | system.MS_REC)
    os.chroot(root)
    os.chdir("/")


def become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


async def run_containers(home: Path) -> dict[str, object]:
    home.joinpath("volume").mkdir()
    home.joinpath("volume", "file").touch()
    specs = {
        "plain": shell("id -u; exit 3", container="plain"),
        "mounted": shell(
            "ls /no-such; id -u", container="mounted", mounts=[Mount(str(home / "volume"), "/no-such")]
        ),
        "another": shell("id -u", container="another", user=1),
        "itself": shell("id -u", container="itself", user=NOBODY),
    }
    async with open_runtime(home) as runtime:
        results: dict[str, object] = {"features": runtime.features}
        for name, spec in specs.items():
            run = await runtime.start(spec)
            end = await run.wait()
            results[name] = [end.code, end.message or await log_text(run)]
        inside = await runtime.start(shell("sleep 999", attempt=1, mounts=specs["mounted"].mounts))
        if inside.pid:
            results["executed"] = (await (await inside.execute(["ls", "/no-such"])).stdout.read()).decode()
        await remove_pod(runtime, inside.spec.pod)
        return results


def main(home: Path, *, confined: bool) -> None:
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    system.unshare(system.CLONE_NEWNS)
    system.mount("none", "/", "", system.MS_REC | system.MS_PRIVATE)
    for place in {Path(sys.executable).resolve().parent.parent, Path(sys.prefix), home}:
        make_reachable(place)
    if confined:
        confine(home.parent / "root")
    become_nobody()
    sys.stdout.write(msgspec.json.encode(asyncio.run(run_containers(home))).decode())


if __name__ == "__main__":
    main(Path(sys.argv[-1]), confined="--confined" in sys.argv)
