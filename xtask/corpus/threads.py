"""Four threads that take turns at one queue and one lock."""
import queue
import signal
import sys
import threading

# Started with interrupts ignored, which python forgets and tells while it starts. Who is interrupted ends: else only the first
# thread would, and the others wait for work for ever.
signal.signal(signal.SIGINT, signal.SIG_DFL)
work, total, lock = queue.Queue(), 0, threading.Lock()


def worker():
    global total
    while (number := work.get()) is not None:
        part = sum(i * i % 7 for i in range(number))
        with lock:
            total += part


threads = [threading.Thread(target=worker) for _ in range(4)]
for thread in threads:
    thread.start()
for number in range(int(sys.argv[1]) * 20):
    work.put(number)
for _ in threads:
    work.put(None)
for thread in threads:
    thread.join()
print(total)
