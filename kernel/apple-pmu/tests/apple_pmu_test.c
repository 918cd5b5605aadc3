// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Stands in for what an emulator lacks: perf's driver of the PMU, idle states
 * and power cycles that lose the registers. It checks nothing and must never be
 * loaded on a machine that matters. Load it before apple_pmu_el0: the callback
 * for CPUs that come online has to run first.
 */

#include <linux/cpu.h>
#include <linux/cpu_pm.h>
#include <linux/cpuhotplug.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/smp.h>
#include <linux/uaccess.h>

#include <asm/apple_m1_pmu.h>

#include "apple_pmu_test.h"

static struct apple_pmu_test online;
static bool have_online;
static enum cpuhp_state cpuhp_state;

#define COUNTERS(_)	_(0) _(1) _(2) _(3) _(4) _(5) _(6) _(7) _(8) _(9)
#define READ_PMC(n)	regs->pmc[n] = read_sysreg_s(SYS_IMP_APL_PMC##n##_EL1);
#define WRITE_PMC(n)write_sysreg_s(regs->pmc[n], SYS_IMP_APL_PMC##n##_EL1);

static void read_registers(void *to)
{
	struct apple_pmu_test *regs = to;

	regs->trap = read_sysreg(sctlr_el1) >> 63;
	regs->pmcr0 = read_sysreg_s(SYS_IMP_APL_PMCR0_EL1);
	regs->pmcr1 = read_sysreg_s(SYS_IMP_APL_PMCR1_EL1);
	regs->pmesr[0] = read_sysreg_s(SYS_IMP_APL_PMESR0_EL1);
	regs->pmesr[1] = read_sysreg_s(SYS_IMP_APL_PMESR1_EL1);
	COUNTERS(READ_PMC)
}

static void write_registers(void *from)
{
	const struct apple_pmu_test *regs = from;

	write_sysreg_s(0, SYS_IMP_APL_PMCR0_EL1);
	write_sysreg_s(regs->pmcr1, SYS_IMP_APL_PMCR1_EL1);
	write_sysreg_s(regs->pmesr[0], SYS_IMP_APL_PMESR0_EL1);
	write_sysreg_s(regs->pmesr[1], SYS_IMP_APL_PMESR1_EL1);
	COUNTERS(WRITE_PMC)
	write_sysreg_s(regs->pmcr0, SYS_IMP_APL_PMCR0_EL1);
	isb();
}

/* In a kernel thread with interrupts off, as the idle task is. */
static int idle(void *registers)
{
	unsigned long flags;
	int err;

	local_irq_save(flags);
	err = cpu_pm_enter();
	if (!err) {
		write_registers(registers);
		cpu_pm_exit();
	}
	local_irq_restore(flags);
	return err;
}

/* The lock keeps the CPU: a thread whose CPU goes is moved to another. */
static int idle_on(unsigned int cpu, struct apple_pmu_test *registers)
{
	int err;

	cpus_read_lock();
	err = smp_call_on_cpu(cpu, idle, registers, false);
	cpus_read_unlock();
	return err;
}

static long test_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	void __user *user = (void __user *)argument;
	struct apple_pmu_test regs;
	int err;

	if (copy_from_user(&regs, user, sizeof(regs)))
		return -EFAULT;
	switch (command) {
	case APPLE_PMU_TEST_READ:
		err = smp_call_function_single(regs.cpu, read_registers, &regs, 1);
		return err ?: copy_to_user(user, &regs, sizeof(regs)) ? -EFAULT : 0;
	case APPLE_PMU_TEST_WRITE:
		return smp_call_function_single(regs.cpu, write_registers, &regs, 1);
	case APPLE_PMU_TEST_IDLE:
		return idle_on(regs.cpu, &regs);
	case APPLE_PMU_TEST_ONLINE:
		online = regs;
		have_online = true;
		return 0;
	default:
		return -ENOTTY;
	}
}

static int cpu_online_lost(unsigned int cpu)
{
	if (have_online)
		write_registers(&online);
	return 0;
}

static const struct file_operations test_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = test_ioctl,
};

static struct miscdevice test_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "apple_pmu_test",
	.fops = &test_fops,
	.mode = 0600,
};

static int __init test_init(void)
{
	cpuhp_state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "apple_pmu_test:online",
						cpu_online_lost, NULL);
	if ((int)cpuhp_state < 0)
		return cpuhp_state;
	return misc_register(&test_device);
}

static void __exit test_exit(void)
{
	misc_deregister(&test_device);
	cpuhp_remove_state_nocalls(cpuhp_state);
}

module_init(test_init);
module_exit(test_exit);

MODULE_DESCRIPTION("Emulates what apple_pmu_el0 has to survive");
MODULE_LICENSE("Dual MIT/GPL");
