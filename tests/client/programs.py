"""Programs with a blocking client, each for a process of its own: `python -m tests.client.programs NAME URL`."""

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from headrace.client.background import BACKGROUND
from headrace.client.blocking import BlockingClient, BlockingHandle
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.open import open_store
from tests.client.worker_calls import work

JOBS = 200
FORKS = 5


def fork(act: Callable[[], object]) -> int:
    """Run `act` in a forked child, which ends without the parent's exit functions; the child's process id."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - the parent sees the exit code, the test this line
            print("child:", repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def join(pid: int) -> None:
    """Wait until the child has ended well."""
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def do_next(url: str, result: bytes) -> None:
    """Claim and end the next job, as a worker would, on a loop and a store of its own."""

    async def go() -> None:
        store = await open_store(url)
        await work(store, Queue("default"), Done(result))
        await store.close()

    asyncio.run(go())


def fork_after_use(url: str) -> None:
    """The child goes on after the parent has closed its client: nothing of the parent's was shared."""
    client = BlockingClient(url)
    client.enqueue("send", id="parent-1")
    to_child, to_parent = os.pipe(), os.pipe()

    def child() -> None:
        client.enqueue("send", id="child-1")
        os.write(to_parent[1], b".")
        assert os.read(to_child[0], 1) == b"."
        client.enqueue("send", id="child-2")

    pid = fork(child)
    client.enqueue("send", id="parent-2")
    assert os.read(to_parent[0], 1) == b"."
    client.close()
    os.write(to_child[1], b".")
    join(pid)


def fork_while_others_send(url: str) -> None:
    """Threads send all the time while the program forks again and again."""
    client = BlockingClient(url)
    failures: list[BaseException] = []

    def send(name: str, jobs: int = JOBS) -> None:
        try:
            for number in range(jobs):
                client.enqueue("send", id=f"{name}-{number}")
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=send, args=(f"thread-{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    children = [fork(partial(send, f"child-{number}", 10)) for number in range(FORKS)]
    for thread in threads:
        thread.join()
    for pid in children:
        join(pid)
    assert not failures, failures


def fork_while_one_waits(url: str) -> None:
    """A thread that waits for a result goes on waiting after the fork, and gets it."""
    client = BlockingClient(url)
    handle = client.enqueue("send", id="a")
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(handle.result(timeout="60s")))
    thread.start()

    for number in range(FORKS):
        join(fork(partial(send_from, client, f"later-{number}", "1h")))
    do_next(url, b"42")

    thread.join()
    assert results == [42], results


def find_state(handle: BlockingHandle[object]) -> str:
    """Run in a pool's process."""
    found = handle.find()
    return "unknown" if found is None else found.state


def send_from(client: BlockingClient, id: str, delay: str = "0s") -> BlockingHandle[object]:
    """Run in another process; from a pool's, the handle comes home pickled."""
    return client.enqueue("send", id=id, delay=delay)


def pool(url: str) -> None:
    """Clients and handles go to the processes of a pool and back, fork or not."""
    with BlockingClient(url, queue="mail") as client:
        client.enqueue("send", id="before")
        for method in ("fork", "spawn"):
            context = multiprocessing.get_context(method)
            with ProcessPoolExecutor(2, mp_context=context) as processes:
                handles = [processes.submit(send_from, client, f"{method}-{each}").result() for each in range(4)]
                assert [handle.status for handle in handles] == ["created"] * 4
                assert {handle.queue for handle in handles} == {Queue("mail")}
                assert set(processes.map(find_state, handles)) == {"waiting"}
            assert {find_state(handle) for handle in handles} == {"waiting"}


def interrupt_waits(url: str) -> None:
    """Ctrl-C comes at any point of a wait for a result; each time the program goes on with something else."""
    client = BlockingClient(url)
    handle = client.enqueue("send", id="before")

    def press(later: int) -> None:
        while not BACKGROUND.is_waiting:
            pass
        for _ in range(later):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    for time in range(INTERRUPTIONS):
        presser = threading.Thread(target=press, args=(time % 60,))
        sys.setswitchinterval((1e-6, 1e-5, 1e-4)[time % 3])
        try:
            presser.start()
            handle.result()
        except KeyboardInterrupt:
            presser.join()
            client.enqueue("send", id=f"after {time}")


def leave_open(url: str) -> None:
    """Ends without closing anything, while the store still has notifications to send."""
    client = BlockingClient(url)
    for number in range(3):
        client.enqueue("send", id="a", queue=f"mail-{number}")


INTERRUPTIONS = 300
"""Enough that some fall where a lock is taken or the thread is about to sleep."""

PROGRAMS: dict[str, Callable[[str], None]] = {
    program.__name__: program
    for program in (fork_after_use, fork_while_others_send, fork_while_one_waits, pool, interrupt_waits, leave_open)
}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores Ctrl-C by default
    PROGRAMS[sys.argv[1]](sys.argv[2])
