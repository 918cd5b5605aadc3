/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * EL0 access to the PMU of Apple silicon: the interface of /dev/apple_pmu_el0.
 *
 * open() saves the PMU's registers on every CPU and lets EL0 use them: MRS and
 * MSR of PMCR0, PMCR1, PMESR0, PMESR1, PMSR and PMC0 to PMC9. The last close()
 * of the descriptor takes the access away and writes back what was saved.
 *
 * open() fails with
 *   EACCES, EPERM  the caller may not: CAP_SYS_RAWIO is needed, and a kernel
 *                  that is not locked down
 *   EUSERS         another descriptor is open
 *   EBUSY          perf, or another driver, is using the PMU of some CPU
 *
 * All fields are in the byte order of the CPU. Bit n of a mask is PMCn.
 */
#ifndef _UAPI_APPLE_PMU_EL0_H
#define _UAPI_APPLE_PMU_EL0_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define APPLE_PMU_EL0_PATH	"/dev/apple_pmu_el0"

/* Grows when a program that was built for the number before would break. */
#define APPLE_PMU_EL0_ABI	1

/**
 * struct apple_pmu_el0_info - what the chip has
 * @abi: APPLE_PMU_EL0_ABI of the module
 * @counters: mask of the counters
 * @selector_bits: bits of an event in PMESR0 and PMESR1: 8 or 16
 * @counter_bits: bits of a counter; the highest one is the overflow flag
 */
struct apple_pmu_el0_info {
	__u32 abi;
	__u32 counters;
	__u32 selector_bits;
	__u32 counter_bits;
};

/**
 * struct apple_pmu_el0_config - what every CPU is to count
 * @enable: mask of the counters that count; the others stand still
 * @user: mask of the counters that count at EL0
 * @kernel: mask of the counters that count in the kernel
 * @reserved: 0
 * @pmesr: PMESR0 and PMESR1, as the chip has them
 *
 * @enable is the union of @user and @kernel.
 */
struct apple_pmu_el0_config {
	__u32 enable;
	__u32 user;
	__u32 kernel;
	__u32 reserved;
	__u64 pmesr[2];
};

/**
 * struct apple_pmu_el0_status - how many online CPUs are in which state
 * @granted: EL0 may use the registers
 * @refused: EL0 may not, because perf was counting when the CPU came online
 * @perf: of @granted, perf has begun to count; counts cannot be trusted then
 * @changed: of @granted, PMCR0, PMCR1, PMESR0 or PMESR1 are not as configured
 *
 * @changed is 0 when nothing has been configured. A program that writes these
 * registers itself at EL0 counts among those that change them.
 */
struct apple_pmu_el0_status {
	__u32 granted;
	__u32 refused;
	__u32 perf;
	__u32 changed;
};

#define APPLE_PMU_EL0_IOC_MAGIC	0xB8

/* Errors: EFAULT. */
#define APPLE_PMU_EL0_INFO	_IOR(APPLE_PMU_EL0_IOC_MAGIC, 0, struct apple_pmu_el0_info)

/*
 * Stops all counters of every online CPU, sets them to 0, chooses events and
 * modes, and starts the counters of @enable. CPUs that come online later get
 * the same. CPUs start one after the other, microseconds apart. Interrupts are
 * never enabled.
 *
 * Errors: EFAULT; EINVAL for a counter, a bit of PMESR or a filter that cannot
 * be; EBUSY when perf has begun to count on some CPU: counters are stopped then
 * on all others; ENODEV when the machine is about to restart.
 */
#define APPLE_PMU_EL0_CONFIGURE	_IOW(APPLE_PMU_EL0_IOC_MAGIC, 1, struct apple_pmu_el0_config)

/* Errors: EFAULT; ENODEV when the machine is about to restart. */
#define APPLE_PMU_EL0_STATUS	_IOR(APPLE_PMU_EL0_IOC_MAGIC, 2, struct apple_pmu_el0_status)

#endif /* _UAPI_APPLE_PMU_EL0_H */
