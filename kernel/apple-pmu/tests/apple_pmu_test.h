/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the test program asks of the test module. For emulators only. */
#ifndef APPLE_PMU_TEST_H
#define APPLE_PMU_TEST_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define APPLE_PMU_TEST_PATH	"/dev/apple_pmu_test"

struct apple_pmu_test {
	__u32 cpu;
	__u32 trap;		/* SCTLR_ELx.TIDCP; read only */
	__u64 pmcr0;
	__u64 pmcr1;
	__u64 pmesr[2];
	__u64 pmc[10];
};

/* The registers of a CPU, as the kernel reads them. */
#define APPLE_PMU_TEST_READ	_IOWR('t', 0, struct apple_pmu_test)
/* Writes them, as perf's driver would. */
#define APPLE_PMU_TEST_WRITE	_IOW('t', 1, struct apple_pmu_test)
/* An idle state in which they change to the given ones. */
#define APPLE_PMU_TEST_IDLE	_IOW('t', 2, struct apple_pmu_test)
/* CPUs come online with the given ones from now on. */
#define APPLE_PMU_TEST_ONLINE	_IOW('t', 3, struct apple_pmu_test)

#endif /* APPLE_PMU_TEST_H */
