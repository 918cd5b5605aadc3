import random

import perf_monitor


class np:
    """Enough of a library for matrices that the example needs no other package."""

    @staticmethod
    def dot(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
        columns = list(zip(*b))
        return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


large_matrix_a = [[random.random() for _ in range(40)] for _ in range(40)]
large_matrix_b = [[random.random() for _ in range(40)] for _ in range(40)]

# From here on the example as it was given.
monitor = perf_monitor.PerfMonitor()

monitor.configure(
    events=[
        "cpu_cycles",
        "instructions",
        "l1d_cache_misses",
        "branch_misses"
    ],
    sampling_rate=100  # 100Hz
)

with monitor.measure("matrix_multiplication"):
    result = np.dot(large_matrix_a, large_matrix_b)

metrics = monitor.get_metrics()
print(f"IPC: {metrics.instructions / metrics.cpu_cycles:.2f}")
print(f"L1D Miss Rate: {metrics.l1d_misses / metrics.l1d_accesses:.3%}")
