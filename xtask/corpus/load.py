"""A load for an interpreter: words counted, sorted, joined, and hashed."""
import hashlib
import json
import re
import signal
import sys

# Started with interrupts ignored: python forgets those that come while it starts or ends, and says so.
signal.signal(signal.SIGINT, signal.default_int_handler)
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
signal.signal(signal.SIGINT, signal.SIG_IGN)
