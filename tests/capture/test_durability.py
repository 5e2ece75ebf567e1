"""What is left when a process ends, in every way that it can: each test ends a real one."""

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from envbench.store import connect

LONGEST = 120
"""Seconds after which a process counts as hanging; none needs a tenth of it."""

ENVIRONMENT = """
import gymnasium, os, signal, sys, threading, time
import numpy as np
from envbench import EvalCase, capture_episode, connect
from envbench.capture import EpisodeCaptureWrapper, WriteFailed, capture_episodes

class Line(gymnasium.Env):
    '''Walks along a line; an episode has as many steps as options say.'''
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 2**40, (1,), np.float64)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.length = 0, (options or {}).get("length", 3)
        return np.array([0.0]), {}
    def step(self, action):
        self.at += 1
        return np.array([float(self.at)]), 1.0, self.at >= self.length, False, {}

def play(env, seed, length, steps=None):
    env.reset(seed=seed, options={"length": length})
    for _ in range(length if steps is None else steps):
        env.step(1)

def capture(store, seed, length, interact=None, env=Line):
    def walk(env, observation, info):
        for _ in range(length):
            env.step(1)
    return capture_episode(
        env, interact or walk, case=EvalCase("walk", case_id="walk"), environment_id="line-v1",
        observer_id="none", observe=lambda: {"seed": seed}, seed=seed, max_steps=10**6,
        options={"length": length}, store=store)

def say(*words):
    print(*words, flush=True)

path = sys.argv[1]
"""


STARTED: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    for process in STARTED:
        process.kill()
        process.communicate()
    STARTED.clear()


def start(path, code, **kwargs):
    script = ENVIRONMENT + textwrap.dedent(code)
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )
    STARTED.append(process)
    return process


def finish(process, status=0):
    """Wait for a process, and give what it printed."""
    try:
        out, err = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler prints where its threads are
        out, err = process.communicate()
        pytest.fail(f"it hangs:\n{out}\n{err}")
    assert process.returncode == status, err
    return out, err


def run(path, code, status=0):
    return finish(start(path, code), status)


def read(path):
    """(seed, ending, steps) of every episode, all of which must verify."""
    with connect(path) as store:
        verification = store.verify()
        assert verification.ok, verification.problems
        assert store.sql("SELECT count(*) FROM open_episodes").fetchall() == [(0,)]
        return store.sql(
            "SELECT seed, ending, n_steps FROM episodes ORDER BY recorded_at"
        ).fetchall()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.duckdb"


# -- ends of a script -----------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_short_script_that_does_not_close_loses_nothing(path, steps):
    runs = range(11 if steps == 5 else 1)
    for seed in runs:
        run(path, f"env = capture_episodes(Line(), exporter=path); play(env, {seed}, 9, {steps})")
    assert read(path) == [(seed, "interrupted", steps) for seed in runs]


def test_what_has_ended_is_kept_as_ended_at_exit(path):
    run(path, "env = capture_episodes(Line(), exporter=path); play(env, 1, 3); play(env, 2, 3)")
    assert read(path) == [(1, "terminated", 3), (2, "terminated", 3)]


def test_sys_exit_in_mid_episode(path):
    code = "env = capture_episodes(Line(), exporter=path); play(env, 1, 9, 4); sys.exit(3)"
    run(path, code, status=3)
    assert read(path) == [(1, "interrupted", 4)]


def test_sys_exit_by_the_agent_of_capture_episode(path):
    code = """
        def leave(env, observation, info):
            env.step(1)
            sys.exit(3)
        capture(path, 1, 9, leave)
    """
    run(path, code, status=3)
    assert read(path) == [(1, "interrupted", 1)]


def test_an_exception_that_nobody_catches(path):
    code = "env = capture_episodes(Line(), exporter=path); play(env, 1, 9, 4); 1 / 0"
    _, err = run(path, code, status=1)
    assert "ZeroDivisionError" in err
    assert read(path) == [(1, "interrupted", 4)]


def test_os_exit_keeps_what_was_flushed(path):
    code = """
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 3)
        env.flush()
        os._exit(7)
    """
    run(path, code, status=7)
    assert read(path) == [(1, "terminated", 3)]


def test_os_exit_leaves_the_committed_part_of_a_long_episode(path):
    code = """
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 10**6, 5003)
        env.flush()
        os._exit(7)
    """
    run(path, code, status=7)
    assert read(path) == [(1, "interrupted", 5000)]


def test_exit_while_the_queue_is_full(path):
    code = """
        import envbench.capture.sink as sink
        sink.QUEUE_BYTES = 1000
        env = capture_episodes(Line(), exporter=path)
        for seed in range(50):
            play(env, seed, 3)
    """
    run(path, code)
    assert read(path) == [(seed, "terminated", 3) for seed in range(50)]


def test_a_function_of_atexit_may_still_close_the_environment(path):
    code = """
        import atexit
        env = capture_episodes(Line(), exporter=path)
        atexit.register(env.close)
        play(env, 1, 9, 2)
    """
    _, err = run(path, code)
    assert err == ""
    assert read(path) == [(1, "closed_early", 2)]


def test_a_function_of_atexit_that_was_there_first_may_still_record(path):
    code = "import atexit\natexit.register(lambda: late())\n" + ENVIRONMENT
    code += textwrap.dedent("""
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 9, 2)
        def late():
            env.step(1)
            try:
                env.reset(seed=2)
            except Exception as error:
                print(type(error).__name__, flush=True)
            env.close()
    """)
    process = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=LONGEST
    )
    assert (process.returncode, process.stdout) == (0, "StoreClosed\n"), process.stderr
    assert read(path) == [(1, "interrupted", 2)]


def test_exit_within_an_event_loop(path):
    code = """
        import asyncio
        env = capture_episodes(Line(), exporter=path)
        async def main():
            play(env, 1, 3)
            await asyncio.sleep(0)
            play(env, 2, 9, 4)
            sys.exit(5)
        asyncio.run(main())
    """
    run(path, code, status=5)
    assert read(path) == [(1, "terminated", 3), (2, "interrupted", 4)]


# -- threads --------------------------------------------------------------------------------------


def test_a_thread_records(path):
    code = """
        def work():
            env = capture_episodes(Line(), exporter=path)
            play(env, 1, 3)
            play(env, 2, 9, 2)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """
    run(path, code)
    assert read(path) == [(1, "terminated", 3), (2, "interrupted", 2)]


def test_a_thread_that_outlives_the_main_one(path):
    code = """
        def work():
            env = capture_episodes(Line(), exporter=path)
            while threading.main_thread().is_alive():
                time.sleep(0.01)
            play(env, 1, 9, 2)
        threading.Thread(target=work).start()
    """
    run(path, code)
    assert read(path) == [(1, "interrupted", 2)]


@pytest.mark.parametrize("lengths", ["3", "20_000"])
def test_daemon_threads_that_record_until_the_end(path, lengths):
    code = f"""
        import envbench.capture.sink as sink
        sink.QUEUE_BYTES = 100_000
        store = connect(path)
        begun = threading.Barrier(3)
        def work(number):
            env = EpisodeCaptureWrapper(Line(), exporter=store)
            play(env, number, 3)
            begun.wait()
            while True:
                number += 10
                play(env, number, {lengths})
        for number in (1, 2):
            threading.Thread(target=work, args=(number,), daemon=True).start()
        begun.wait()
        time.sleep(0.2)
    """
    run(path, code)
    assert {(1, "terminated", 3), (2, "terminated", 3)} <= set(read(path))


def test_a_daemon_thread_in_capture_episode(path):
    code = """
        store = connect(path)
        walked = threading.Event()
        def walk(env, observation, info):
            for index in range(10**6):
                env.step(1)
                if index == 100:
                    walked.set()
        work = lambda: capture(store, 1, 10**6, walk)
        threading.Thread(target=work, daemon=True).start()
        walked.wait()
    """
    run(path, code)
    ((seed, ending, steps),) = read(path)
    assert (seed, ending) == (1, "interrupted")
    assert steps >= 101


# -- signals --------------------------------------------------------------------------------------


def test_sigterm_in_mid_episode(path):
    code = """
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 3)
        play(env, 2, 9, 4)
        say("ready")
        time.sleep(100)
    """
    process = start(path, code)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    finish(process, -signal.SIGTERM)
    assert read(path) == [(1, "terminated", 3), (2, "interrupted", 4)]


def test_sigterm_in_a_loop_that_never_rests(path):
    code = """
        env = capture_episodes(Line(), exporter=path)
        for seed in range(10**9):
            play(env, seed, 1 + seed % 50)
            if seed == 20:
                say("ready")
    """
    process = start(path, code)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    finish(process, -signal.SIGTERM)
    *ended, (_, ending, _) = found = read(path)
    assert [seed for seed, _, _ in found] == list(range(len(found)))
    assert all((kind, steps) == ("terminated", 1 + seed % 50) for seed, kind, steps in ended)
    assert ending in ("terminated", "interrupted")
    assert len(found) > 20


def test_sigterm_in_capture_episode(path):
    code = """
        def wait(env, observation, info):
            env.step(1)
            env.step(1)
            say("ready")
            time.sleep(100)
        capture(path, 1, 9, wait)
    """
    process = start(path, code)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    finish(process, -signal.SIGTERM)
    assert read(path) == [(1, "interrupted", 2)]
    with connect(path) as store:
        (episode,) = store.episodes()
        assert episode.data["cleanup"] == {"attempted": False, "completed": False, "error": None}


def test_sigterm_while_the_caller_waits_for_room(path):
    code = """
        import envbench.capture.sink as sink
        sink.QUEUE_BYTES = 0
        env = capture_episodes(Line(), exporter=path)
        for seed in range(10**9):
            play(env, seed, 3)
            if seed == 20:
                say("ready")
    """
    process = start(path, code)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    finish(process, -signal.SIGTERM)
    found = read(path)
    assert [seed for seed, _, _ in found] == list(range(len(found)))
    assert all(found_one[1:] == ("terminated", 3) for found_one in found[:-1])


def test_a_handler_of_sigterm_that_the_user_set_is_left_alone(path):
    code = """
        def leave(number, frame):
            say("mine")
            sys.exit(9)
        signal.signal(signal.SIGTERM, leave)
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 9, 4)
        assert signal.getsignal(signal.SIGTERM) is leave
        say("ready")
        time.sleep(100)
    """
    process = start(path, code)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out, _ = finish(process, 9)
    assert out == "mine\n"
    assert read(path) == [(1, "interrupted", 4)]


def test_a_signal_that_is_ignored_stays_ignored(path):
    code = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 3)
        os.kill(os.getpid(), signal.SIGTERM)
        play(env, 2, 3)
        env.close()
    """
    run(path, code)
    assert read(path) == [(1, "terminated", 3), (2, "terminated", 3)]


def test_an_interrupt_in_a_notebook_leaves_the_episode_open(path):
    code = """
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 9, 2)
        try:  # the cell that runs
            say("ready")
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            pass
        for _ in range(7):  # the next cell goes on
            env.step(1)
        env.close()
    """
    process = start(path, code)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    finish(process)
    assert read(path) == [(1, "terminated", 9)]


def test_interrupts_of_a_loop_that_is_never_at_rest(path):
    """Steps in which an interrupt came are in the record or never were; none is there twice."""
    code = """
        env = capture_episodes(Line(), exporter=path)
        seed = 0
        for _ in range(20):
            try:
                say("ready")
                while True:
                    play(env, seed, 5)
                    seed += 1
            except KeyboardInterrupt:
                pass
        env.close()
    """
    process = start(path, code)
    for _ in range(20):
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
    finish(process)
    found = read(path)
    complete = [seed for seed, ending, steps in found if (ending, steps) == ("terminated", 5)]
    assert len(complete) == len(set(complete))
    assert len(found) - len(complete) <= 2 * 20


# -- processes ------------------------------------------------------------------------------------

WORKER = """
import multiprocessing
def work(path, number):
    env = capture_episodes(Line(), exporter=path)
    play(env, number, 3)
    play(env, number + 10, 9, 2)
"""


def test_a_forked_worker_that_opens_its_own_store(path):
    code = WORKER + textwrap.dedent("""
        process = multiprocessing.get_context("fork").Process(target=work, args=(path, 1))
        process.start()
        process.join()
        sys.exit(process.exitcode)
    """)
    run(path, code)
    assert read(path) == [(1, "terminated", 3), (11, "interrupted", 2)]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_that_is_started_anew(path, method):
    script = path.with_suffix(".py")
    main = textwrap.dedent(f"""
        if __name__ == "__main__":
            process = multiprocessing.get_context("{method}").Process(target=work, args=(path, 1))
            process.start()
            process.join()
            sys.exit(process.exitcode)
    """)
    script.write_text(ENVIRONMENT + WORKER + main)
    process = subprocess.run(
        [sys.executable, str(script), str(path)], capture_output=True, text=True, timeout=LONGEST
    )
    assert process.returncode == 0, process.stderr
    assert read(path) == [(1, "terminated", 3), (11, "interrupted", 2)]


def test_a_worker_that_is_terminated(path):
    code = WORKER + textwrap.dedent("""
        ready = multiprocessing.get_context("fork").Event()
        def stay():
            work(path, 1)
            env = capture_episodes(Line(), exporter=path)
            play(env, 2, 9, 5)
            ready.set()
            time.sleep(100)
        process = multiprocessing.get_context("fork").Process(target=stay)
        process.start()
        ready.wait()
        process.terminate()
        process.join()
        assert process.exitcode == -signal.SIGTERM, process.exitcode
    """)
    run(path, code)
    assert (2, "interrupted", 5) in read(path)


def test_a_fork_after_which_both_go_on(path):
    code = """
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 3)
        play(env, 2, 9, 2)
        child = os.fork()
        if child == 0:
            env.step(1)
            play(env, 3, 3)
            env.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for _ in range(7):
            env.step(1)
        play(env, 4, 3)
        env.close()
    """
    run(path, code)
    assert sorted(read(path)) == [
        (1, "terminated", 3),
        (2, "reset_early", 3),
        (2, "terminated", 9),
        (3, "terminated", 3),
        (4, "terminated", 3),
    ]
    assert not path.with_name("store.duckdb.spill").exists()


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)", "os.kill(os.getpid(), 15)"])
def test_a_fork_that_has_nothing_to_do_with_the_environment(path, end):
    code = f"""
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 3)
        play(env, 2, 9, 2)
        child = os.fork()
        if child == 0:
            {end}
        os.waitpid(child, 0)
        env.close()
    """
    run(path, code)
    assert read(path) == [(1, "terminated", 3), (2, "closed_early", 2)]


def test_a_forked_worker_with_an_environment_that_was_wrapped_before(path):
    code = """
        import multiprocessing
        env = capture_episodes(Line(), exporter=path)
        env.reset(seed=1, options={"length": 9})
        def work():
            env.step(1)
            play(env, 2, 3)
            play(env, 3, 9, 4)
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()
        assert process.exitcode == 0
        env.close()
    """
    run(path, code)
    assert sorted(read(path)) == [
        (1, "closed_early", 0),
        (1, "reset_early", 1),
        (2, "terminated", 3),
        (3, "interrupted", 4),
    ]


def test_a_long_episode_that_is_open_at_a_fork_is_the_parents(path):
    code = """
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 6000, 5500)
        child = os.fork()
        if child == 0:
            env.step(1)
            play(env, 2, 3)
            env.close()
            os._exit(0)
        os.waitpid(child, 0)
        for _ in range(500):
            env.step(1)
        env.close()
    """
    _, err = run(path, code)
    assert "is not recorded; reset the environment after a fork" in err
    assert read(path) == [(1, "terminated", 6000), (2, "terminated", 3)]


def test_a_store_of_the_parent_in_a_forked_process(path):
    code = """
        store = connect(path)
        capture(store, 1, 3)
        child = os.fork()
        if child == 0:
            capture(store, 2, 3)
            env = EpisodeCaptureWrapper(Line(), exporter=store)
            play(env, 3, 3)
            env.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        capture(store, 4, 3)
        store.close()
    """
    run(path, code)
    assert sorted(read(path)) == [(seed, "terminated", 3) for seed in (1, 2, 3, 4)]


def test_vector_environments_in_forked_processes(path):
    code = """
        def make(number):
            return lambda: capture_episodes(Line(), exporter=f"{path}.{number}")
        envs = gymnasium.vector.AsyncVectorEnv([make(0), make(1)], context="fork")
        envs.reset(seed=[1, 2])
        for _ in range(6):
            envs.step(np.array([1, 1]))
        envs.close()
    """
    run(path, code)
    for number in (0, 1):
        found = read(f"{path}.{number}")
        assert found[0] == (number + 1, "terminated", 3)
        assert len(found) == 2


# -- kills ----------------------------------------------------------------------------------------


def test_a_kill_after_the_first_part(path):
    code = """
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 3)
        play(env, 2, 10**6, 11_000)
        env.flush()
        say("ready")
        time.sleep(100)
    """
    process = start(path, code)
    assert process.stdout.readline() == "ready\n"
    process.kill()
    finish(process, -signal.SIGKILL)
    assert read(path) == [(1, "terminated", 3), (2, "interrupted", 10_000)]
    with connect(path) as store:
        episode = store.episodes("seed = 2")[0]
        assert episode.final_state is None
        assert any(issue.startswith("interrupted:") for issue in episode.coverage_issues)
        assert [episode.steps[i].observation[0] for i in (0, 9_999)] == [1.0, 10_000.0]
        assert episode.data["totals"] == {"reward": 10_000.0, "steps": 10_000}


LOOP = """
import random
base, chance = int(os.environ["BASE"]), random.Random(int(os.environ["BASE"]))
store = connect(path)
env = EpisodeCaptureWrapper(Line(), exporter=store)
say("ready")
seed = base
while True:
    kept = []
    for _ in range(chance.randint(1, 5)):
        seed += 1
        play(env, seed, 1 + seed % 40)
        kept.append(seed)
    env.flush()
    say("kept", *kept)
    seed += 1
    capture(store, seed, 1 + seed % 40)
    say("kept", seed)
    if chance.random() < 0.5:
        seed += 1
        env.reset(seed=seed, options={"length": 10_500})
        for step in range(10_500):
            env.step(1)
            if step in (5_200, 10_300):
                env.flush()
                say("reached", seed, 5_000 if step == 5_200 else 10_000)
        env.flush()
        say("kept", seed)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_kills_at_random_moments(path, seed):
    chance = random.Random(seed)
    kept: set[int] = set()
    reached: dict[int, int] = {}
    for number in range(1, 11):
        base = number * 100_000
        process = start(path, LOOP, env={**os.environ, "BASE": str(base)})
        if number % 3:  # else it may be killed while it opens, and adopts
            process.stdout.readline()
        timer = threading.Timer(chance.uniform(0.0, 1.0 if number % 3 else 2.0), process.kill)
        timer.start()
        lines = process.stdout.read().splitlines(keepends=True)
        timer.join()
        finish(process, -signal.SIGKILL)
        for line in lines:
            words = line.split()
            if not line.endswith("\n") or words[0] == "ready":
                continue
            if words[0] == "kept":
                kept |= set(map(int, words[1:]))
            else:
                reached[int(words[1])] = int(words[2])
        found = read(path)
        steps = {seed: n_steps for seed, _, n_steps in found}
        assert len(steps) == len(found), "an episode is there twice"
        assert kept <= set(steps)
        assert all(steps[seed] >= at_least for seed, at_least in reached.items())
        for each, ending, n_steps in found:
            if ending == "terminated":
                assert n_steps in (1 + each % 40, 10_500)
            else:
                assert (ending, n_steps) in {("interrupted", 5_000), ("interrupted", 10_000)}
                assert each not in kept
    assert not path.with_name("store.duckdb.spill").exists()


# -- what fails for real --------------------------------------------------------------------------


def test_a_disk_that_is_full(path):
    """A limit on the size of files stands for the disk; spill files are small and find room."""
    code = """
        import resource
        import envbench.capture.sink as sink
        sink.QUEUE_BYTES = 1_000_000
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        env = capture_episodes(Line(), exporter=path)
        play(env, 1, 3)
        env.flush()
        size = os.path.getsize(path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4, size // 4))
        seed = 1
        try:
            while seed < 2000:
                seed += 1
                play(env, seed, 300)
        except WriteFailed as error:
            say(error)
        try:
            env.close()
        except WriteFailed as error:
            say(error)
        say(seed)
    """
    out, _ = run(path, code)
    *messages, seeds = out.splitlines()
    assert messages
    assert f"in {path}.spill" in messages[0]
    assert "File too large" in messages[0]
    found = read(path)
    assert sorted(seed for seed, _, _ in found) in (
        list(range(1, int(seeds) + 1)),
        list(range(1, int(seeds))),  # it was the reset of the last one that said so
    )
    assert not path.with_name("store.duckdb.spill").exists()


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of a megabyte."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        yield None
        return
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


FULL = """
folder = os.path.dirname(path)
env = capture_episodes(Line(), exporter=path)
seed = 0
def until_it_fails():
    global seed
    while True:
        seed += 1
        play(env, seed, 300)
        env.flush()
try:
    until_it_fails()
except WriteFailed as error:
    say(error)
"""


def test_a_disk_on_which_not_even_a_spill_file_finds_room(tiny_disk, tmp_path):
    if tiny_disk is None:
        # where nothing can be mounted, a folder that is a file stands for the spill folder
        folder = tmp_path
        fill = "os.truncate(path, 0); open(path + '.spill', 'w').close()\n"
        relieve = "os.remove(path + '.spill')"
        begin = "import resource\n" + FULL.replace("seed = 0", f"seed = 0\n{fill}")
    else:
        folder = tiny_disk
        relieve = "os.system(f'mount -o remount,size=200m {folder}')"
        begin = FULL
    code = begin + textwrap.dedent(f"""
        try:
            env.close()
        except WriteFailed as error:
            say(error)
        {relieve}
        try:
            env.close()
        except WriteFailed as error:
            say(error)
        say(seed)
    """)
    path = folder / "store.duckdb"
    out, err = run(path, code)
    first, second, third, seeds = out.splitlines()
    assert "held in memory, as no file could be written" in first
    assert "held in memory, as no file could be written" in second
    assert f"in {path}.spill" in third
    assert "at exit" not in err
    assert sorted(read(path)) == [(seed, "terminated", 300) for seed in range(1, int(seeds) + 1)]
