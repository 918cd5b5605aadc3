// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The test of apple_pmu_el0, as process 1 of an emulated machine: /modules has
 * the module and, for test=grant, the test module. "test=" on the kernel's
 * command line chooses what is expected:
 *   grant   Apple's registers are there, and there are at least two CPUs; grant16: of M3
 *   refuse  the module must not load
 * Prints a line for each check, then "done: N checks, M failed".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../uapi/apple_pmu_el0.h"
#include "apple_pmu_test.h"

#define USER_ACCESS	(1ull << 30)
#define MODE_FIQ	(4ull << 8)
#define ENABLES		0x3000000ffull
#define LOOPS		1000000ull
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static int checks, failed, test_fd = -1;
static bool wide;	/* a chip with 16-bit events and 64-bit counters */

static void check(bool right, const char *sentence)
{
	checks++;
	failed += !right;
	printf("%s - %s\n", right ? "ok" : "NOT OK", sentence);
}

static void check_value(long long got, long long expected, const char *sentence)
{
	check(got == expected, sentence);
	if (got != expected)
		printf("    got %lld (0x%llx), expected %lld\n", got, got, expected);
}

/* ---- registers at EL0 ---- */

static sigjmp_buf no_access;

static void on_sigill(int signal)
{
	siglongjmp(no_access, signal);
}

#define READ(name, register_name)						\
	static uint64_t name(void)						\
	{									\
		uint64_t value;							\
		asm volatile("isb\n\tmrs %0, " register_name : "=r"(value) :: "memory"); \
		return value;							\
	}
READ(el0_pmcr0, "s3_1_c15_c0_0")
READ(el0_pmc0, "s3_2_c15_c0_0")
READ(el0_pmc1, "s3_2_c15_c1_0")
READ(el0_pmc9, "s3_2_c15_c10_0")

static void el0_write_pmcr0(uint64_t value)
{
	asm volatile("msr s3_1_c15_c0_0, %0\n\tisb" :: "r"(value) : "memory");
}

static void el0_write_pmc9(uint64_t value)
{
	asm volatile("msr s3_2_c15_c10_0, %0\n\tisb" :: "r"(value) : "memory");
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		printf("    sched_setaffinity(%d): %s\n", cpu, strerror(errno));
}

static bool access_here(void)
{
	if (sigsetjmp(no_access, 1))
		return false;
	return el0_pmcr0() & USER_ACCESS;
}

static bool access_on(int cpu)
{
	run_on(cpu);
	return access_here();
}

static bool access_nowhere(void)
{
	return !access_on(0) && !access_on(1);
}

static bool access_everywhere(void)
{
	return access_on(0) && access_on(1);
}

static void loop(uint64_t n)
{
	asm volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(n) :: "cc");
}

static uint64_t instructions_of_system_calls(void)
{
	uint64_t before = el0_pmc1();

	for (int i = 0; i < 1000; i++)
		syscall(SYS_getppid);
	return el0_pmc1() - before;
}

static uint64_t instructions_of_loop(void)
{
	uint64_t before = el0_pmc1();

	loop(LOOPS);
	return el0_pmc1() - before;
}

/* ---- registers at EL1 ---- */

static struct apple_pmu_test registers(int cpu)
{
	struct apple_pmu_test regs = { .cpu = cpu };

	if (ioctl(test_fd, APPLE_PMU_TEST_READ, &regs))
		printf("    reading the registers of CPU %d: %s\n", cpu, strerror(errno));
	return regs;
}

static void tell_module(unsigned long command, struct apple_pmu_test regs)
{
	if (ioctl(test_fd, command, &regs))
		printf("    test module: %s\n", strerror(errno));
}

static struct apple_pmu_test distinct(int cpu)
{
	struct apple_pmu_test regs = {
		.cpu = cpu,
		.pmcr0 = 1ull << 22,
		.pmcr1 = 0x10101 * (cpu + 1),
		.pmesr = { 0x11223344 + cpu, 0x55667788 + cpu },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(regs.pmc); i++)
		regs.pmc[i] = 1000 * (i + 1) + cpu;
	return regs;
}

/* A counter that counts with interrupts in mode FIQ, as perf's driver has it. */
static struct apple_pmu_test perf(int cpu)
{
	struct apple_pmu_test regs = {
		.cpu = cpu,
		.pmcr0 = MODE_FIQ | 1 << 5 | 1 << 17,
		.pmcr1 = 1 << 13,
		.pmesr = { 0x8dull << 24, 0 },
	};

	regs.pmc[5] = 123456;
	return regs;
}

static bool same_but_counters(struct apple_pmu_test a, struct apple_pmu_test b)
{
	return a.pmcr0 == b.pmcr0 && a.pmcr1 == b.pmcr1 && !memcmp(a.pmesr, b.pmesr, sizeof(a.pmesr));
}

static bool same(struct apple_pmu_test a, struct apple_pmu_test b)
{
	return same_but_counters(a, b) && !memcmp(a.pmc, b.pmc, sizeof(a.pmc));
}

static void set_all(struct apple_pmu_test (*state)(int))
{
	for (int cpu = 0; cpu < 2; cpu++)
		tell_module(APPLE_PMU_TEST_WRITE, state(cpu));
}

/* ---- the device ---- */

static int open_device(void)
{
	return open(APPLE_PMU_EL0_PATH, O_RDWR | O_CLOEXEC);
}

static int open_error(void)
{
	int fd = open_device();

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int configure(int fd, struct apple_pmu_el0_config config)
{
	return ioctl(fd, APPLE_PMU_EL0_CONFIGURE, &config) ? errno : 0;
}

static struct apple_pmu_el0_status status(int fd)
{
	struct apple_pmu_el0_status status = { ~0u, ~0u, ~0u, ~0u };

	if (ioctl(fd, APPLE_PMU_EL0_STATUS, &status))
		printf("    status: %s\n", strerror(errno));
	return status;
}

static void check_status(int fd, struct apple_pmu_el0_status expected, const char *sentence)
{
	struct apple_pmu_el0_status got = status(fd);

	check(!memcmp(&got, &expected, sizeof(got)), sentence);
	printf("    granted %u, refused %u, perf %u, changed %u\n",
	       got.granted, got.refused, got.perf, got.changed);
}

static int insmod(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return errno;
	err = syscall(SYS_finit_module, fd, "", 0) ? errno : 0;
	close(fd);
	return err;
}

static int rmmod(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? errno : 0;
}

/* ---- other processes ---- */

static int result_of(pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int in_child(int (*function)(void))
{
	pid_t child = fork();

	if (!child)
		_exit(function());
	return result_of(child);
}

static int open_as_user(void)
{
	if (setgroups(0, NULL) || setgid(1000) || setuid(1000))
		return 255;
	return open_error();
}

static int open_without_capability(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		return 255;
	data[0].effective &= ~(1u << CAP_SYS_RAWIO);
	if (syscall(SYS_capset, &header, data))
		return 255;
	return open_error();
}

static int exec_with(int flags)
{
	if (open(APPLE_PMU_EL0_PATH, O_RDWR | flags) < 0)
		return 255;
	execl("/init", "init", "probe", NULL);
	return 255;
}

static int exec_with_descriptor(void)
{
	return exec_with(0);
}

static int exec_without_descriptor(void)
{
	return exec_with(O_CLOEXEC);
}

static pid_t holder(void)
{
	int ready[2];
	pid_t child;
	char byte = 0;

	if (pipe(ready))
		return -1;
	child = fork();
	if (!child) {
		byte = open_device() >= 0;
		if (write(ready[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	if (read(ready[0], &byte, 1) != 1 || !byte)
		printf("    the holder could not open the device\n");
	close(ready[0]);
	close(ready[1]);
	return child;
}

static void set_online(int cpu, bool online)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_WRONLY);
	check(fd >= 0 && write(fd, online ? "1" : "0", 1) == 1,
	      online ? "a CPU comes online" : "a CPU goes offline");
	close(fd);
}

/* ---- the checks ---- */

/* The kernel's own words: the module's lines are shown, a fault is a failure. */
static void test_log(void)
{
	static const char *const faults[] = { "Oops", "BUG:", "WARNING:", "Call trace" };
	static char log[1 << 20];
	bool fault = false;
	int length = klogctl(3, log, sizeof(log) - 1);

	log[length < 0 ? 0 : length] = 0;
	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n")) {
		for (unsigned int i = 0; i < ARRAY_SIZE(faults); i++)
			fault |= !!strstr(line, faults[i]);
		if (fault || strstr(line, "apple_pmu"))
			printf("    %s\n", line);
	}
	check(length > 0 && !fault, "the kernel has logged no fault");
}

static const struct apple_pmu_el0_config both_modes = { .enable = 3, .user = 3, .kernel = 3 };

static void test_access(void)
{
	struct apple_pmu_el0_info info;
	struct stat node;
	int fd;

	check(!stat(APPLE_PMU_EL0_PATH, &node) && (node.st_mode & 07777) == 0600 && !node.st_uid,
	      "the device is root's alone");
	check(access_nowhere(), "EL0 has no access before the device is opened");
	set_all(distinct);
	fd = open_device();
	check(fd >= 0, "root opens the device");
	check(access_everywhere(), "EL0 has access on every CPU");
	check_value(el0_pmc0(), 1001, "PMC0 of CPU 1 is as found");
	el0_write_pmc9(77);
	check_value(el0_pmc9(), 77, "EL0 writes and reads PMC9");
	check(!registers(0).trap && !registers(1).trap, "the core does not trap EL0's accesses");
	check(!ioctl(fd, APPLE_PMU_EL0_INFO, &info), "info is given");
	check(info.abi == APPLE_PMU_EL0_ABI && info.counters == 0x3ff, "ten counters");
	check(info.selector_bits == (wide ? 16 : 8) && info.counter_bits == (wide ? 64 : 48),
	      "selectors and counters have the generation's width");
	check_status(fd, (struct apple_pmu_el0_status){ .granted = 2 }, "two CPUs have access");
	check_value(open_error(), EUSERS, "a second descriptor is refused: EUSERS");
	check_value(rmmod("apple_pmu_el0"), EAGAIN, "the module stays while a descriptor is open");
	check(ioctl(fd, _IO(APPLE_PMU_EL0_IOC_MAGIC, 99)) && errno == ENOTTY, "an unknown request: ENOTTY");
	check(ioctl(fd, APPLE_PMU_EL0_CONFIGURE, 8) && errno == EFAULT, "a bad address: EFAULT");
	close(fd);
	check(access_nowhere(), "EL0 has no access after the descriptor was closed");
	check(same(registers(0), distinct(0)) && same(registers(1), distinct(1)),
	      "all registers of every CPU are as before");
}

static void test_trap(bool before)
{
	check(registers(0).trap == before && registers(1).trap == before,
	      "the core's trap of EL0's accesses is as before");
	printf("    it is %s\n", before ? "on" : "off");
}

static void test_configure(void)
{
	struct apple_pmu_el0_config config = { .enable = 0x203, .user = 0x203, .pmesr = { 0, 0x8cull << 24 } };
	struct apple_pmu_test regs;
	uint64_t count, user, kernel;
	int fd = open_device();

	check_value(configure(fd, config), 0, "counters 0, 1 and 9 are configured for user mode");
	regs = registers(1);
	check_value(regs.pmcr0, 1 << 22 | USER_ACCESS | 0x200000003, "PMCR0: access, enables, bits as found");
	check_value(regs.pmcr1, 0x302 | 0x20000000000, "PMCR1: user mode of three counters, bits as found");
	check_value(regs.pmesr[1], 0x8c000000, "PMESR1: the event of PMC9");
	run_on(1);
	count = instructions_of_loop();
	check(count >= 2 * LOOPS && count < 2 * LOOPS + 32, "user mode: the loop's instructions, no others");
	printf("    %llu for a loop of %llu\n", (unsigned long long)count, 2 * LOOPS);
	check(el0_pmc9() >= 2 * LOOPS, "PMC9 counts the event that was chosen");
	check_status(fd, (struct apple_pmu_el0_status){ .granted = 2 }, "nothing has changed");
	user = instructions_of_system_calls();

	config = (struct apple_pmu_el0_config){ .enable = 2, .kernel = 2 };
	check_value(configure(fd, config), 0, "PMC1 is configured for kernel mode");
	count = instructions_of_loop();
	check(count < LOOPS / 10, "kernel mode: not the loop's instructions");
	kernel = instructions_of_system_calls();
	check(kernel > 1000 * 10, "but those of a thousand system calls");
	check_value(configure(fd, both_modes), 0, "both modes are configured");
	count = instructions_of_system_calls();
	check(count > user && count > kernel, "both modes: more than either alone");
	printf("    a thousand system calls: user %llu, kernel %llu, both %llu\n", (unsigned long long)user,
	       (unsigned long long)kernel, (unsigned long long)count);

	run_on(0);
	/* and one that turns on an interrupt, in a mode that is not perf's */
	el0_write_pmcr0((el0_pmcr0() & ~1ull) | 1 << 8 | 1 << 13);
	check_status(fd, (struct apple_pmu_el0_status){ .granted = 2, .changed = 1 }, "a change at EL0 is told");
	close(fd);
	check(access_nowhere(), "EL0 has no access after close");
	check(same(registers(0), distinct(0)) && same(registers(1), distinct(1)), "all registers are as before");
}

static void test_bad_configurations(void)
{
	const struct { struct apple_pmu_el0_config config; const char *sentence; } cases[] = {
		{ { .enable = 1 << 10, .user = 1 << 10 }, "a counter that is not there: EINVAL" },
		{ { .enable = 1 }, "a counter that counts in no mode: EINVAL" },
		{ { .enable = 1, .user = 1, .kernel = 2 }, "a mode of a counter that stands: EINVAL" },
		{ { .enable = 1, .user = 1, .reserved = 1 }, "a reserved field: EINVAL" },
		{ { .enable = 4, .user = 4, .pmesr = { 1ull << 32 } }, "an event above PMESR0: EINVAL" },
		{ { .enable = 4, .user = 4, .pmesr = { 0, 1ull << 63 } }, "an event above PMESR1: EINVAL" },
	};
	int fd = open_device();

	for (unsigned int i = 0; i < ARRAY_SIZE(cases) - (wide ? 2 : 0); i++)
		check_value(configure(fd, cases[i].config), EINVAL, cases[i].sentence);
	check((registers(0).pmcr0 & ENABLES) == 0, "nothing counts after them");
	if (wide) {
		check_value(configure(fd, (struct apple_pmu_el0_config){ .pmesr = { ~0ull, ~0ull } }), 0,
			    "16-bit events fill PMESR0 and PMESR1");
		check(registers(0).pmesr[0] == ~0ull, "and arrive");
	}
	close(fd);
}

static void test_permissions(void)
{
	check_value(in_child(open_as_user), EACCES, "an ordinary user: EACCES");
	chmod(APPLE_PMU_EL0_PATH, 0666);
	check_value(in_child(open_as_user), EPERM, "an ordinary user who may open the node: EPERM");
	chmod(APPLE_PMU_EL0_PATH, 0600);
	check_value(in_child(open_without_capability), EPERM, "root without CAP_SYS_RAWIO: EPERM");
	check(access_nowhere(), "none of them got access");
}

static void test_processes(void)
{
	pid_t child;
	int fd = open_device();

	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	close(fd);
	check(access_everywhere(), "access lasts while a forked child has the descriptor");
	kill(child, SIGKILL);
	result_of(child);
	check(access_nowhere(), "and ends with the child");

	check_value(in_child(exec_with_descriptor), 0, "access lasts over exec with the descriptor");
	check_value(in_child(exec_without_descriptor), 1, "and ends at exec that closes it");
	check(access_nowhere(), "and ends with the process that was executed");

	child = holder();
	check(access_everywhere(), "another process holds the descriptor");
	kill(child, SIGKILL);
	result_of(child);
	check(access_nowhere(), "kill -9 of it ends access");
	check(same(registers(0), distinct(0)) && same(registers(1), distinct(1)), "all registers are as before");
}

static void test_perf_before(void)
{
	struct apple_pmu_test foreign = distinct(1);

	tell_module(APPLE_PMU_TEST_WRITE, perf(1));
	check_value(open_error(), EBUSY, "perf counts on one CPU: EBUSY");
	check(same_but_counters(registers(1), perf(1)), "perf's registers are untouched");
	check(same(registers(0), distinct(0)), "and those of the other CPU");
	foreign.pmcr0 |= USER_ACCESS;
	tell_module(APPLE_PMU_TEST_WRITE, foreign);
	check_value(open_error(), EBUSY, "somebody else gives EL0 access: EBUSY");
	tell_module(APPLE_PMU_TEST_WRITE, distinct(1));
	check_value(open_error(), 0, "perf has stopped: the device opens");
}

static void test_perf_meanwhile(void)
{
	struct apple_pmu_test ours, theirs = perf(1);
	int fd = open_device();

	check_value(configure(fd, both_modes), 0, "two counters are configured");
	ours = registers(1);
	theirs.pmcr0 |= ours.pmcr0;
	theirs.pmcr1 |= ours.pmcr1;
	tell_module(APPLE_PMU_TEST_WRITE, theirs);
	check_status(fd, (struct apple_pmu_el0_status){ .granted = 2, .perf = 1, .changed = 1 },
		     "perf begins to count on one CPU: told");
	check_value(configure(fd, both_modes), EBUSY, "another configuration: EBUSY");
	check((registers(0).pmcr0 & ENABLES) == 0, "the other CPU's counters stand then");
	tell_module(APPLE_PMU_TEST_IDLE, theirs);
	check(access_everywhere(), "access lasts over an idle state after which perf counts");
	close(fd);
	check(access_nowhere(), "close ends access on that CPU too");
	check_value(registers(1).pmcr0, perf(1).pmcr0 | 1 << 22, "perf's counter goes on, ours stand");
	check_value(registers(1).pmesr[0], perf(1).pmesr[0], "perf's event stays");
	check(registers(1).pmc[5] >= perf(1).pmc[5], "perf's count stays");
	check(same(registers(0), distinct(0)), "the other CPU's registers are as before");
	set_all(distinct);
}

static void test_idle(void)
{
	struct apple_pmu_test nothing = { .cpu = 1 }, before;
	int fd = open_device();

	configure(fd, (struct apple_pmu_el0_config){ .enable = 3, .user = 3, .pmesr = { 1, 2 } });
	run_on(1);
	loop(LOOPS);
	run_on(0);
	before = registers(1);
	tell_module(APPLE_PMU_TEST_IDLE, nothing);
	check(same(registers(1), before), "an idle state loses the registers: all are back");
	check(before.pmc[1] >= 2 * LOOPS, "and the counts with them");
	check(access_on(1), "and EL0's access");
	check_status(fd, (struct apple_pmu_el0_status){ .granted = 2 }, "nothing has changed");
	close(fd);
	tell_module(APPLE_PMU_TEST_IDLE, nothing);
	check(registers(1).pmc[0] == 0, "nothing is written back after an idle state without access");
	set_all(distinct);
}

static void test_hotplug(void)
{
	struct apple_pmu_test fresh = distinct(6);
	int fd = open_device();

	run_on(0);
	tell_module(APPLE_PMU_TEST_ONLINE, fresh);
	set_online(1, false);
	check_status(fd, (struct apple_pmu_el0_status){ .granted = 1 }, "one CPU is left");
	check_value(configure(fd, both_modes), 0, "it is configured");
	set_online(1, true);
	check_status(fd, (struct apple_pmu_el0_status){ .granted = 2 }, "both are configured");
	check(access_on(1), "EL0 has access on the CPU that came");
	check(instructions_of_loop() >= 2 * LOOPS, "and counts there");
	run_on(0);
	close(fd);
	check(access_nowhere(), "close ends access on both");
	check(same(registers(1), fresh), "the CPU that came has the registers it came with");

	set_online(1, false);
	fd = open_device();
	fresh = perf(1);
	tell_module(APPLE_PMU_TEST_ONLINE, fresh);
	set_online(1, true);
	check_status(fd, (struct apple_pmu_el0_status){ .granted = 1, .refused = 1 },
		     "a CPU on which perf counts gets no access");
	check(access_on(0) && !access_on(1), "EL0 has access on the other one only");
	run_on(0);
	close(fd);
	check(same_but_counters(registers(1), fresh), "perf's registers are untouched");

	tell_module(APPLE_PMU_TEST_ONLINE, distinct(1));
	set_online(1, false);
	set_online(1, true);
	check(access_nowhere(), "a CPU that comes without a descriptor gets no access");
	fd = open_device();
	set_online(1, false);
	close(fd);
	set_online(1, true);
	check(access_nowhere(), "nor one that comes after the descriptor was closed");
	set_all(distinct);
}

/* Opens, closes, idle states and CPUs that come and go, all at the same time. */
static void test_all_at_once(void)
{
	struct apple_pmu_test lost = { .cpu = 1 };
	pid_t opener = fork(), sleeper;
	int failures = 0;

	if (!opener) {
		for (int i = 0; i < 300; i++)
			failures += open_error() != 0;
		_exit(failures != 0);
	}
	sleeper = fork();
	if (!sleeper)
		for (;;)
			ioctl(test_fd, APPLE_PMU_TEST_IDLE, &lost);
	tell_module(APPLE_PMU_TEST_ONLINE, lost);
	for (int i = 0; i < 5; i++) {
		set_online(1, false);
		set_online(1, true);
	}
	check_value(result_of(opener), 0, "300 opens succeed meanwhile");
	kill(sleeper, SIGKILL);
	result_of(sleeper);
	check(access_nowhere(), "EL0 has no access in the end");
	check(same(registers(0), distinct(0)), "the registers of the CPU that stayed are as before");
	check(same_but_counters(registers(1), lost), "and those of the other as it came");
	set_all(distinct);
}

#define RESTARTED	0xb007

static struct apple_pmu_test before_restart(int cpu)
{
	return (struct apple_pmu_test){ .cpu = cpu, .pmesr = { RESTARTED } };
}

/* The emulated registers outlive a restart, which is how its other side knows. */
static void restart(void)
{
	int fd;

	set_all(before_restart);
	fd = open_device();
	configure(fd, both_modes);
	check(access_everywhere(), "EL0 has access, and the machine restarts");
	printf("so far: %d checks, %d failed\n", checks, failed);
	usleep(200000);
	reboot(RB_AUTOBOOT);
}

static void test_restarted(void)
{
	check(access_nowhere(), "EL0 has no access after the restart");
	check(same_but_counters(registers(0), before_restart(0)) &&
	      same_but_counters(registers(1), before_restart(1)), "all registers were written back before it");
}

/* The last test of all: a kernel does not leave this state. */
static void test_lockdown(void)
{
	int fd;

	check_value(insmod("/modules/apple_pmu_el0.ko"), 0, "the module loads");
	check_value(open_error(), 0, "and its device opens");
	mount("securityfs", "/sys/kernel/security", "securityfs", 0, NULL);
	fd = open("/sys/kernel/security/lockdown", O_WRONLY);
	check(fd >= 0 && write(fd, "integrity", 9) == 9, "the kernel is locked down");
	close(fd);
	check_value(open_error(), EPERM, "the device does not open then: EPERM");
	check(access_nowhere(), "EL0 has no access");
}

static void test_grant(void)
{
	bool trap;

	check_value(insmod("/modules/apple_pmu_test.ko"), 0, "the test module loads");
	test_fd = open(APPLE_PMU_TEST_PATH, O_RDWR | O_CLOEXEC);
	if (registers(0).pmesr[0] == RESTARTED) {
		test_restarted();
		test_lockdown();
		return;
	}
	trap = registers(0).trap;
	check_value(insmod("/modules/apple_pmu_el0.ko"), 0, "the module loads");
	test_access();
	test_trap(trap);
	test_configure();
	test_bad_configurations();
	test_permissions();
	test_processes();
	test_perf_before();
	test_perf_meanwhile();
	test_idle();
	test_hotplug();
	test_all_at_once();
	test_trap(trap);
	check_value(rmmod("apple_pmu_el0"), 0, "the module unloads");
	check(access(APPLE_PMU_EL0_PATH, F_OK) && errno == ENOENT, "its device is gone");
	check(access_nowhere(), "EL0 has no access");
	check_value(insmod("/modules/apple_pmu_el0.ko"), 0, "it loads again");
	test_log();
	restart();
}

static void test_refuse(void)
{
	check_value(insmod("/modules/apple_pmu_el0.ko"), ENODEV, "the module refuses to load: ENODEV");
	check(access(APPLE_PMU_EL0_PATH, F_OK) && errno == ENOENT, "there is no device");
}

static void set_up(void)
{
	const char *folders[] = { "/proc", "/sys", "/dev" }, *types[] = { "proc", "sysfs", "devtmpfs" };
	struct sigaction action = { .sa_handler = on_sigill };
	int console;

	for (unsigned int i = 0; i < ARRAY_SIZE(folders); i++) {
		mkdir(folders[i], 0755);
		mount(types[i], folders[i], types[i], 0, NULL);
	}
	console = open("/dev/console", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(console, fd);
	setvbuf(stdout, NULL, _IONBF, 0);
	sigaction(SIGILL, &action, NULL);
}

static bool command_line_has(const char *word)
{
	char line[4096] = "";
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t length = read(fd, line, sizeof(line) - 1);

	close(fd);
	return length > 0 && strstr(line, word);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_sigill };
	struct utsname name;

	if (argc > 1 && !strcmp(argv[1], "probe")) {
		sigaction(SIGILL, &action, NULL);
		return !access_everywhere();
	}
	set_up();
	uname(&name);
	printf("\nbegin: Linux %s, %ld CPUs\n", name.release, sysconf(_SC_NPROCESSORS_ONLN));
	wide = command_line_has("test=grant16");
	if (command_line_has("test=grant"))
		test_grant();
	else if (command_line_has("test=refuse"))
		test_refuse();
	test_log();
	printf("done: %d checks, %d failed\n", checks, failed);
	sync();
	usleep(200000);
	return reboot(RB_POWER_OFF);
}
