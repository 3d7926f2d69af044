"""Questions are answered in forks, and no code that a fork leaves behind hears the next question or answers it."""

import json
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
HARNESS = """
import os, sys
from recovery.spark import child

def answer(message):
    heard = message["request"]["heard"]
    left = os.fork() if heard else None
    if left:
        os.waitpid(left, 0)  # the fork's group is ended with it: what is left behind has a session of its own by now
    if left == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        found = []
        for number in range(0, 64):
            try:
                name = os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                continue
            if name in sys.argv[1:]:
                found.append(name)
        with open(heard + ".part", "w") as file:
            file.write(repr([found, os.read(0, 10)]))
        os.rename(heard + ".part", heard)
        os._exit(0)
    return {"number": message["number"]}

child._answer = answer
sys.argv += [os.readlink(f"/proc/self/fd/{number}") for number in (0, 1)]
child.serve()
"""


def test_code_that_a_fork_leaves_behind_has_no_pipe_of_the_questions(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT
    ) as process:
        assert process.stdin
        assert process.stdout
        for number in (1, 2):
            question = {"number": number, "folder": str(tmp_path), "log": str(tmp_path / "log")}
            question["request"] = {"heard": str(heard) if number == 1 else ""}
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"answer": {"number": number}}
        until = time.monotonic() + 10
        while not heard.exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.stdin.close()
        assert process.wait(10) == 0
    assert heard.read_text() == repr([[], b""])


def test_who_gives_up_ends_the_fork_that_still_works(tmp_path: Path) -> None:
    slow = HARNESS.replace('    heard = message["request"]["heard"]', "    import time; time.sleep(60)")
    slow = slow.replace("child.serve()", "child.CANCEL_SECONDS = 60\nchild.serve()")
    with subprocess.Popen(
        [sys.executable, "-c", slow], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT
    ) as process:
        assert process.stdin
        question = {"folder": str(tmp_path), "log": str(tmp_path / "log"), "request": {}}
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        time.sleep(1)
        process.stdin.close()
        assert process.wait(20) == 0  # the fork ends by itself: it is not waited for to be killed
