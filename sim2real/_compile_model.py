"""Program that compiles one model under limits: reads it from standard input, says on standard output how it went.

It imports nothing of ours, so that nothing of ours is at stake, and writes no file. Input: a line of JSON (limits, and
names and sizes of the files), then the files one after the other, the model first.
"""

import json
import resource
import sys


def limit(cpu_seconds: int, memory: int) -> None:
    """Bound what this process may take: s of CPU time, and bytes beyond what it has now."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    if sys.platform == "linux":
        with open("/proc/self/statm") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + memory, taken + memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Compile, and answer with a line of JSON."""
    import mujoco

    header = json.loads(sys.stdin.buffer.readline())
    limit(header["cpu_seconds"], header["memory"])
    try:
        files = {name: sys.stdin.buffer.read(size) for name, size in header["files"]}
        model, *_ = files
        text = files.pop(model).decode()
        # Models within models are found only among what MuJoCo calls includes.
        parts = {name: data for name, data in files.items() if name.endswith(".xml")}
        spec = mujoco.MjSpec.from_string(text, include=parts, assets={n: d for n, d in files.items() if n not in parts})
        compiled = spec.compile()
        data = mujoco.MjData(compiled)
        mujoco.mj_forward(compiled, data)
        answer = {
            "ok": True,
            "nbody": compiled.nbody,
            "nq": compiled.nq,
            "nu": compiled.nu,
            "nbuffer": compiled.nbuffer,
        }
    except MemoryError:
        answer = {"ok": False, "error": "memory"}
    except Exception as error:
        # Whatever MuJoCo raises is the model's fault, and the message is all that may leave this process.
        answer = {"ok": False, "error": str(error)}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
