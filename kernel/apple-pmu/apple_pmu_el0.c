// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * EL0 access to the PMU of Apple silicon
 *
 * While a descriptor of /dev/apple_pmu_el0 is open, EL0 may read and write the
 * PMU's registers on every online CPU. The registers are saved before and
 * written back after, kept over idle states, and set up on CPUs that come
 * online meanwhile.
 *
 * The registers exist on Apple's cores only, and executing an access elsewhere
 * is an oops; so nothing is touched before the machine, the exception level and
 * the core have been looked at. A virtual machine on a Mac has the core's id
 * and not its registers: it is refused for its machine and its level.
 *
 * perf's driver for this PMU cannot be unbound and does not share. It leaves
 * PMCR0's interrupt mode on exactly while it counts on a CPU, and enables the
 * interrupt of every counter it uses; this driver does neither.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bitfield.h>
#include <linux/capability.h>
#include <linux/cpu.h>
#include <linux/cpu_pm.h>
#include <linux/cpuhotplug.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/of.h>
#include <linux/percpu.h>
#include <linux/reboot.h>
#include <linux/security.h>
#include <linux/smp.h>
#include <linux/uaccess.h>

#include <asm/apple_m1_pmu.h>
#include <asm/cputype.h>
#include <asm/virt.h>

#include "apple_pmu_el0.h"

#define NR_COUNTERS		10
#define COUNTERS		GENMASK(NR_COUNTERS - 1, 0)
#define COUNTERS_PER_PMESR	4

#define PMCR0_ENABLE		(PMCR0_CNT_ENABLE_0_7 | PMCR0_CNT_ENABLE_8_9)
#define PMCR0_PMI_ENABLE	(PMCR0_PMI_ENABLE_0_7 | PMCR0_PMI_ENABLE_8_9)
/* A counter's interrupt bit lies this far above its enable bit. */
#define PMCR0_PMI_SHIFT		12
/* What this driver decides about; the other bits stay as found. */
#define PMCR0_OURS		(PMCR0_ENABLE | PMCR0_PMI_ENABLE | PMCR0_IMODE | \
				 PMCR0_IACT | PMCR0_ALLOW_CNT_EN_EL0)
#define PMCR1_USER		(PMCR1_COUNT_A64_EL0_0_7 | PMCR1_COUNT_A64_EL0_8_9)
#define PMCR1_KERNEL		(PMCR1_COUNT_A64_EL1_0_7 | PMCR1_COUNT_A64_EL1_8_9)
#define PMCR1_OURS		(PMCR1_USER | PMCR1_KERNEL)

/*
 * SCTLR_ELx.TIDCP: EL0's accesses to registers of this kind trap, whatever
 * PMCR0 says. Linux sets it where the core has it (FEAT_TIDCP1).
 */
#define SCTLR_TIDCP		BIT(63)

/*
 * Generations by MIDR_EL1's part. A16's successors, M3 and later, have 16-bit
 * events; counters are 64 bits wide from M2 on.
 * Sources: m1n1, src/midr.h; xnu, pexpert/pexpert/arm64/H13.h to H16.h.
 */
struct generation {
	u32 selector_bits;
	u32 counter_bits;
};

static const struct generation m1 = { .selector_bits = 8, .counter_bits = 48 };
static const struct generation m2 = { .selector_bits = 8, .counter_bits = 64 };
static const struct generation m3 = { .selector_bits = 16, .counter_bits = 64 };

static const struct {
	u32 part;
	const struct generation *generation;
} parts[] = {
	{ 0x022, &m1 }, { 0x023, &m1 },		/* M1 */
	{ 0x024, &m1 }, { 0x025, &m1 },		/* M1 Pro */
	{ 0x028, &m1 }, { 0x029, &m1 },		/* M1 Max, Ultra */
	{ 0x032, &m2 }, { 0x033, &m2 },		/* M2 */
	{ 0x034, &m2 }, { 0x035, &m2 },		/* M2 Pro */
	{ 0x038, &m2 }, { 0x039, &m2 },		/* M2 Max, Ultra */
	{ 0x042, &m3 }, { 0x043, &m3 },		/* M3 */
	{ 0x044, &m3 }, { 0x045, &m3 },		/* M3 Pro */
	{ 0x048, &m3 }, { 0x049, &m3 },		/* M3 Max */
	{ 0x052, &m3 }, { 0x053, &m3 },		/* M4 */
	{ 0x054, &m3 }, { 0x055, &m3 },		/* M4 Pro */
	{ 0x058, &m3 }, { 0x059, &m3 },		/* M4 Max */
};

struct pmu_registers {
	u64 pmcr0;
	u64 pmcr1;
	u64 pmesr[2];
	u64 pmc[NR_COUNTERS];
};

/* Written on its own CPU only, with interrupts off. */
struct pmu_cpu {
	bool granted;
	bool trapped;			/* SCTLR_TIDCP was set */
	struct pmu_registers found;	/* before EL0 had access */
	struct pmu_registers asleep;	/* before an idle state */
};

static DEFINE_PER_CPU(struct pmu_cpu, pmu_cpus);

/* The generation of all CPUs. Set once, before the device exists. */
static const struct generation *generation;

/* Serialises open, release, ioctl and the restart of the machine. */
static DEFINE_MUTEX(pmu_mutex);
static bool pmu_opened;			/* under pmu_mutex */
static bool pmu_restarting;		/* under pmu_mutex */

/*
 * What a CPU that comes online is to get. Written with pmu_mutex and the CPU
 * hotplug lock held for reading; so hotplug callbacks read them without.
 */
static bool pmu_held;
static bool pmu_configured;
static struct apple_pmu_el0_config pmu_config;

static enum cpuhp_state pmu_cpuhp_state;

static const struct generation *this_core(void)
{
	u32 midr = read_cpuid_id();
	unsigned int i;

	if (MIDR_IMPLEMENTOR(midr) != ARM_CPU_IMP_APPLE)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i].part == MIDR_PARTNUM(midr))
			return parts[i].generation;
	return NULL;
}

static void read_counters(u64 *pmc)
{
	pmc[0] = read_sysreg_s(SYS_IMP_APL_PMC0_EL1);
	pmc[1] = read_sysreg_s(SYS_IMP_APL_PMC1_EL1);
	pmc[2] = read_sysreg_s(SYS_IMP_APL_PMC2_EL1);
	pmc[3] = read_sysreg_s(SYS_IMP_APL_PMC3_EL1);
	pmc[4] = read_sysreg_s(SYS_IMP_APL_PMC4_EL1);
	pmc[5] = read_sysreg_s(SYS_IMP_APL_PMC5_EL1);
	pmc[6] = read_sysreg_s(SYS_IMP_APL_PMC6_EL1);
	pmc[7] = read_sysreg_s(SYS_IMP_APL_PMC7_EL1);
	pmc[8] = read_sysreg_s(SYS_IMP_APL_PMC8_EL1);
	pmc[9] = read_sysreg_s(SYS_IMP_APL_PMC9_EL1);
}

static void write_counters(const u64 *pmc)
{
	write_sysreg_s(pmc[0], SYS_IMP_APL_PMC0_EL1);
	write_sysreg_s(pmc[1], SYS_IMP_APL_PMC1_EL1);
	write_sysreg_s(pmc[2], SYS_IMP_APL_PMC2_EL1);
	write_sysreg_s(pmc[3], SYS_IMP_APL_PMC3_EL1);
	write_sysreg_s(pmc[4], SYS_IMP_APL_PMC4_EL1);
	write_sysreg_s(pmc[5], SYS_IMP_APL_PMC5_EL1);
	write_sysreg_s(pmc[6], SYS_IMP_APL_PMC6_EL1);
	write_sysreg_s(pmc[7], SYS_IMP_APL_PMC7_EL1);
	write_sysreg_s(pmc[8], SYS_IMP_APL_PMC8_EL1);
	write_sysreg_s(pmc[9], SYS_IMP_APL_PMC9_EL1);
}

static u64 read_pmcr0(void)
{
	return read_sysreg_s(SYS_IMP_APL_PMCR0_EL1);
}

static void write_pmcr0(u64 pmcr0)
{
	write_sysreg_s(pmcr0, SYS_IMP_APL_PMCR0_EL1);
	isb();
}

/* Stops the counters first, so that they all stop at once. */
static void save(struct pmu_registers *to)
{
	to->pmcr0 = read_pmcr0();
	write_pmcr0(to->pmcr0 & ~PMCR0_ENABLE);
	to->pmcr1 = read_sysreg_s(SYS_IMP_APL_PMCR1_EL1);
	to->pmesr[0] = read_sysreg_s(SYS_IMP_APL_PMESR0_EL1);
	to->pmesr[1] = read_sysreg_s(SYS_IMP_APL_PMESR1_EL1);
	read_counters(to->pmc);
}

/* Starts the counters last. A pending interrupt is not brought back. */
static void restore(const struct pmu_registers *from, u64 pmcr0)
{
	write_pmcr0(pmcr0 & ~(PMCR0_ENABLE | PMCR0_IACT));
	write_sysreg_s(from->pmcr1, SYS_IMP_APL_PMCR1_EL1);
	write_sysreg_s(from->pmesr[0], SYS_IMP_APL_PMESR0_EL1);
	write_sysreg_s(from->pmesr[1], SYS_IMP_APL_PMESR1_EL1);
	write_counters(from->pmc);
	isb();
	write_pmcr0(pmcr0 & ~PMCR0_IACT);
}

/* Somebody counts with interrupts, or has given EL0 access already. */
static bool in_use(u64 pmcr0)
{
	return pmcr0 & (PMCR0_IMODE | PMCR0_ALLOW_CNT_EN_EL0);
}

/* Counters that count with interrupts: perf's. */
static u64 perf_counters(u64 pmcr0)
{
	if (FIELD_GET(PMCR0_IMODE, pmcr0) != PMCR0_IMODE_FIQ)
		return 0;
	return pmcr0 & (pmcr0 >> PMCR0_PMI_SHIFT) & PMCR0_ENABLE;
}

static u64 enable_bits(u32 counters)
{
	return FIELD_PREP(PMCR0_CNT_ENABLE_0_7, counters & 0xff) |
	       FIELD_PREP(PMCR0_CNT_ENABLE_8_9, counters >> 8);
}

static u64 mode_bits(u32 user, u32 kernel)
{
	return FIELD_PREP(PMCR1_COUNT_A64_EL0_0_7, user & 0xff) |
	       FIELD_PREP(PMCR1_COUNT_A64_EL0_8_9, user >> 8) |
	       FIELD_PREP(PMCR1_COUNT_A64_EL1_0_7, kernel & 0xff) |
	       FIELD_PREP(PMCR1_COUNT_A64_EL1_8_9, kernel >> 8);
}

static void lift_trap(struct pmu_cpu *cpu)
{
	u64 sctlr = read_sysreg(sctlr_el1);

	if (!(sctlr & SCTLR_TIDCP))
		return;
	write_sysreg(sctlr & ~SCTLR_TIDCP, sctlr_el1);
	isb();
	cpu->trapped = true;
}

static void set_trap(struct pmu_cpu *cpu)
{
	if (!cpu->trapped)
		return;
	write_sysreg(read_sysreg(sctlr_el1) | SCTLR_TIDCP, sctlr_el1);
	isb();
	cpu->trapped = false;
}

/* The registers while EL0 has access: what was found, and the configuration. */
static void configured_registers(const struct pmu_cpu *cpu, struct pmu_registers *regs)
{
	*regs = cpu->found;
	regs->pmcr0 &= ~PMCR0_OURS;
	regs->pmcr0 |= PMCR0_ALLOW_CNT_EN_EL0;
	if (!pmu_configured)
		return;
	regs->pmcr0 |= enable_bits(pmu_config.enable);
	regs->pmcr1 &= ~PMCR1_OURS;
	regs->pmcr1 |= mode_bits(pmu_config.user, pmu_config.kernel);
	regs->pmesr[0] = pmu_config.pmesr[0];
	regs->pmesr[1] = pmu_config.pmesr[1];
	memset(regs->pmc, 0, sizeof(regs->pmc));
}

static void configure_cpu(struct pmu_cpu *cpu)
{
	struct pmu_registers regs;

	configured_registers(cpu, &regs);
	restore(&regs, regs.pmcr0);
}

/* The functions that follow are called on each CPU, with interrupts off. */

static void count_in_use(void *number)
{
	if (in_use(read_pmcr0()))
		atomic_inc(number);
}

/* @refused: counts CPUs that got no access, or NULL */
static void grant(void *refused)
{
	struct pmu_cpu *cpu = this_cpu_ptr(&pmu_cpus);

	if (cpu->granted)
		return;
	if (this_core() != generation || in_use(read_pmcr0())) {
		if (refused)
			atomic_inc(refused);
		return;
	}
	lift_trap(cpu);
	save(&cpu->found);
	configure_cpu(cpu);
	cpu->granted = true;
}

static void withdraw(void *unused)
{
	struct pmu_cpu *cpu = this_cpu_ptr(&pmu_cpus);
	u64 pmcr0, perf;

	if (!cpu->granted)
		return;
	cpu->granted = false;
	pmcr0 = read_pmcr0();
	perf = perf_counters(pmcr0);
	/* What perf has taken meanwhile stays perf's. */
	if (perf)
		write_pmcr0((pmcr0 & ~(PMCR0_ENABLE | PMCR0_ALLOW_CNT_EN_EL0)) | perf);
	else
		restore(&cpu->found, cpu->found.pmcr0);
	set_trap(cpu);
}

static void count_perf(void *number)
{
	if (this_cpu_ptr(&pmu_cpus)->granted && perf_counters(read_pmcr0()))
		atomic_inc(number);
}

/* @taken: counts CPUs on which perf counts */
static void configure(void *taken)
{
	struct pmu_cpu *cpu = this_cpu_ptr(&pmu_cpus);

	if (!cpu->granted)
		return;
	if (perf_counters(read_pmcr0()))
		atomic_inc(taken);
	else
		configure_cpu(cpu);
}

struct counted_status {
	atomic_t granted;
	atomic_t refused;
	atomic_t perf;
	atomic_t changed;
};

static bool as_configured(const struct pmu_cpu *cpu, u64 pmcr0)
{
	struct pmu_registers regs;

	configured_registers(cpu, &regs);
	return pmcr0 == regs.pmcr0 &&
	       read_sysreg_s(SYS_IMP_APL_PMCR1_EL1) == regs.pmcr1 &&
	       read_sysreg_s(SYS_IMP_APL_PMESR0_EL1) == regs.pmesr[0] &&
	       read_sysreg_s(SYS_IMP_APL_PMESR1_EL1) == regs.pmesr[1];
}

static void count_status(void *status)
{
	const struct pmu_cpu *cpu = this_cpu_ptr(&pmu_cpus);
	struct counted_status *counted = status;
	u64 pmcr0;

	if (!cpu->granted) {
		atomic_inc(&counted->refused);
		return;
	}
	pmcr0 = read_pmcr0();
	atomic_inc(&counted->granted);
	if (perf_counters(pmcr0))
		atomic_inc(&counted->perf);
	if (pmu_configured && !as_configured(cpu, pmcr0))
		atomic_inc(&counted->changed);
}

static void compare_core(void *differing)
{
	if (!this_core() || this_core() != generation)
		atomic_inc(differing);
}

/* The functions that follow are called with pmu_mutex held. */

static int grant_all(void)
{
	atomic_t refused = ATOMIC_INIT(0);
	int err = 0;

	cpus_read_lock();
	on_each_cpu(count_in_use, &refused, 1);
	if (!atomic_read(&refused))
		on_each_cpu(grant, &refused, 1);
	if (atomic_read(&refused)) {
		on_each_cpu(withdraw, NULL, 1);
		err = -EBUSY;
	}
	pmu_held = !err;
	cpus_read_unlock();
	return err;
}

static void withdraw_all(void)
{
	cpus_read_lock();
	on_each_cpu(withdraw, NULL, 1);
	pmu_held = false;
	pmu_configured = false;
	cpus_read_unlock();
}

static int configure_all(const struct apple_pmu_el0_config *config)
{
	atomic_t taken = ATOMIC_INIT(0);

	cpus_read_lock();
	on_each_cpu(count_perf, &taken, 1);
	pmu_configured = !atomic_read(&taken);
	if (pmu_configured) {
		pmu_config = *config;
		on_each_cpu(configure, &taken, 1);
	}
	if (atomic_read(&taken)) {
		pmu_configured = false;
		on_each_cpu(configure, &taken, 1);
	}
	cpus_read_unlock();
	return atomic_read(&taken) ? -EBUSY : 0;
}

static bool valid(const struct apple_pmu_el0_config *config)
{
	u64 pmesr = GENMASK_ULL(COUNTERS_PER_PMESR * generation->selector_bits - 1, 0);

	return !config->reserved && !(config->enable & ~COUNTERS) &&
	       config->enable == (config->user | config->kernel) &&
	       !((config->pmesr[0] | config->pmesr[1]) & ~pmesr);
}

static long ioctl_info(void __user *to)
{
	const struct apple_pmu_el0_info info = {
		.abi = APPLE_PMU_EL0_ABI,
		.counters = COUNTERS,
		.selector_bits = generation->selector_bits,
		.counter_bits = generation->counter_bits,
	};

	return copy_to_user(to, &info, sizeof(info)) ? -EFAULT : 0;
}

static long ioctl_configure(const void __user *from)
{
	struct apple_pmu_el0_config config;

	if (copy_from_user(&config, from, sizeof(config)))
		return -EFAULT;
	if (!valid(&config))
		return -EINVAL;
	return configure_all(&config);
}

static long ioctl_status(void __user *to)
{
	struct counted_status counted = {};
	struct apple_pmu_el0_status status;

	cpus_read_lock();
	on_each_cpu(count_status, &counted, 1);
	cpus_read_unlock();
	status.granted = atomic_read(&counted.granted);
	status.refused = atomic_read(&counted.refused);
	status.perf = atomic_read(&counted.perf);
	status.changed = atomic_read(&counted.changed);
	return copy_to_user(to, &status, sizeof(status)) ? -EFAULT : 0;
}

static long pmu_ioctl_locked(unsigned int command, void __user *argument)
{
	if (command == APPLE_PMU_EL0_INFO)
		return ioctl_info(argument);
	if (pmu_restarting)
		return -ENODEV;
	switch (command) {
	case APPLE_PMU_EL0_CONFIGURE:
		return ioctl_configure(argument);
	case APPLE_PMU_EL0_STATUS:
		return ioctl_status(argument);
	default:
		return -ENOTTY;
	}
}

static long pmu_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	long ret;

	mutex_lock(&pmu_mutex);
	ret = pmu_ioctl_locked(command, (void __user *)argument);
	mutex_unlock(&pmu_mutex);
	return ret;
}

static int pmu_open_locked(void)
{
	int err;

	if (pmu_restarting)
		return -ENODEV;
	if (pmu_opened)
		return -EUSERS;
	err = grant_all();
	pmu_opened = !err;
	return err;
}

static int pmu_open(struct inode *inode, struct file *file)
{
	int err;

	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	err = security_locked_down(LOCKDOWN_MSR);
	if (err)
		return err;

	mutex_lock(&pmu_mutex);
	err = pmu_open_locked();
	mutex_unlock(&pmu_mutex);
	return err ?: stream_open(inode, file);
}

static int pmu_release(struct inode *inode, struct file *file)
{
	mutex_lock(&pmu_mutex);
	withdraw_all();
	pmu_opened = false;
	mutex_unlock(&pmu_mutex);
	return 0;
}

static const struct file_operations pmu_fops = {
	.owner = THIS_MODULE,
	.open = pmu_open,
	.release = pmu_release,
	.unlocked_ioctl = pmu_ioctl,
};

static struct miscdevice pmu_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "apple_pmu_el0",
	.fops = &pmu_fops,
	.mode = 0600,
};

/* Runs after perf has reset the CPU's PMU. */
static int pmu_cpu_online(unsigned int cpu)
{
	unsigned long flags;

	local_irq_save(flags);
	if (pmu_held)
		grant(NULL);
	local_irq_restore(flags);
	return 0;
}

static int pmu_cpu_offline(unsigned int cpu)
{
	unsigned long flags;

	local_irq_save(flags);
	withdraw(NULL);
	local_irq_restore(flags);
	return 0;
}

/* perf has stopped before, and starts again where it counts. */
static void wake(struct pmu_cpu *cpu)
{
	u64 pmcr0 = read_pmcr0();

	lift_trap(cpu);
	if (perf_counters(pmcr0))
		write_pmcr0(pmcr0 | PMCR0_ALLOW_CNT_EN_EL0);
	else
		restore(&cpu->asleep, cpu->asleep.pmcr0 & ~(PMCR0_IMODE | PMCR0_PMI_ENABLE));
}

static int pmu_cpu_pm(struct notifier_block *nb, unsigned long event, void *data)
{
	struct pmu_cpu *cpu = this_cpu_ptr(&pmu_cpus);

	if (!cpu->granted)
		return NOTIFY_OK;
	switch (event) {
	case CPU_PM_ENTER:
		save(&cpu->asleep);
		break;
	case CPU_PM_ENTER_FAILED:
	case CPU_PM_EXIT:
		wake(cpu);
		break;
	}
	return NOTIFY_OK;
}

/* perf's notifier has priority 0 and resets the PMU: this one comes after it. */
static struct notifier_block pmu_cpu_pm_nb = {
	.notifier_call = pmu_cpu_pm,
	.priority = -1,
};

/* The next kernel must not begin with EL0 access. */
static int pmu_reboot(struct notifier_block *nb, unsigned long event, void *data)
{
	mutex_lock(&pmu_mutex);
	pmu_restarting = true;
	withdraw_all();
	mutex_unlock(&pmu_mutex);
	return NOTIFY_DONE;
}

static struct notifier_block pmu_reboot_nb = {
	.notifier_call = pmu_reboot,
};

/* Reads nothing that a CPU of another vendor lacks. */
static int __init check_machine(void)
{
	atomic_t differing = ATOMIC_INIT(0);

	if (!of_machine_is_compatible("apple,arm-platform")) {
		pr_info("not an Apple machine\n");
		return -ENODEV;
	}
	if (!is_kernel_in_hyp_mode()) {
		pr_info("the kernel runs below EL2, as in a virtual machine\n");
		return -ENODEV;
	}
	generation = this_core();
	on_each_cpu(compare_core, &differing, 1);
	if (atomic_read(&differing)) {
		pr_info("%d CPUs are no known cores of one generation\n", atomic_read(&differing));
		return -ENODEV;
	}
	return 0;
}

static int __init pmu_init(void)
{
	int err;

	err = check_machine();
	if (err)
		return err;
	err = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "perf/apple_pmu_el0:online",
				pmu_cpu_online, pmu_cpu_offline);
	if (err < 0)
		return err;
	pmu_cpuhp_state = err;
	err = cpu_pm_register_notifier(&pmu_cpu_pm_nb);
	if (err)
		goto remove_state;
	err = register_reboot_notifier(&pmu_reboot_nb);
	if (err)
		goto unregister_cpu_pm;
	err = misc_register(&pmu_device);
	if (err)
		goto unregister_reboot;
	return 0;

unregister_reboot:
	unregister_reboot_notifier(&pmu_reboot_nb);
unregister_cpu_pm:
	cpu_pm_unregister_notifier(&pmu_cpu_pm_nb);
remove_state:
	cpuhp_remove_state(pmu_cpuhp_state);
	return err;
}

/* No descriptor is open here: each one holds the module. */
static void __exit pmu_exit(void)
{
	misc_deregister(&pmu_device);
	unregister_reboot_notifier(&pmu_reboot_nb);
	cpu_pm_unregister_notifier(&pmu_cpu_pm_nb);
	cpuhp_remove_state(pmu_cpuhp_state);
}

module_init(pmu_init);
module_exit(pmu_exit);

MODULE_DESCRIPTION("EL0 access to the PMU of Apple silicon");
MODULE_LICENSE("Dual MIT/GPL");
