"""A load for an interpreter: words counted, sorted, joined, and hashed."""
import hashlib
import json
import re
import signal
import sys

# Started with interrupts ignored. Python's own handler makes exceptions of them, which are told and forgotten in some places.
signal.signal(signal.SIGINT, signal.SIG_DFL)
rounds = int(sys.argv[1])
text = open(sys.argv[2], encoding="ascii").read()[:60_000]
digest = hashlib.sha256()
for turn in range(rounds):
    counts = {}
    for word in re.findall(r"[a-z]+", text):
        counts[word] = counts.get(word, 0) + len(word) * (turn + 1)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    digest.update(json.dumps(ordered).encode())
print(digest.hexdigest())
