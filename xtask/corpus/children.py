"""Many short children through pipes, and some that end by a signal."""
import signal
import subprocess
import sys

# Started with interrupts ignored. Python's own handler makes exceptions of them, which are told and forgotten where an object is
# deleted or the interpreter ends.
signal.signal(signal.SIGINT, signal.SIG_DFL)
for i in range(int(sys.argv[1])):
    done = subprocess.run(["tr", "a-z", "b-za"], input=b"line %d\n" % i * 50, stdout=subprocess.PIPE, check=True)
    print(i, len(done.stdout), sum(done.stdout))
    # An interrupt between start and end would leave it behind.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = subprocess.Popen(["sleep", "60"])
    child.send_signal(signal.SIGTERM)
    print(child.wait())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
