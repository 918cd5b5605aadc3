/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A plugin that gives an emulated CPU a PMU which QEMU lacks, enough of one for the kernels' own drivers:
 *
 *   pmu=intel   architectural performance monitoring 2: 4 general and 3 fixed counters
 *   pmu=amd     6 core counters at 0xc0010200, without global registers
 *   pmu=hybrid  as intel; CPU 0 is a core with 8 general and 4 fixed counters, all others are atoms with 6 and 3
 *   pmu=claim   as intel in CPUID only: registers are QEMU's, which take every write and keep none
 *   pmu=apple   PMCR0, PMCR1, PMESR0, PMESR1, PMSR and PMC0 to PMC9 of an M1
 *               (the default on aarch64; on x86 it is intel)
 *   qmp=SOCKET  where QEMU listens for QMP: overflows become NMIs of CPU 0 through it (x86 only)
 *
 * An access is emulated when the instruction is about to be executed: registers are read and written, and the program counter
 * moves past it. What the plugin does not know is left to QEMU.
 *
 * Instructions are counted exactly, in user mode and in the kernel by their address. An instruction takes two cycles. Every
 * other event counts nothing; what refines an event (cmask, edge, inversion) changes nothing. Apple's interrupts are missing.
 *
 *   cc -O2 -shared -fPIC -fvisibility=hidden -o pmu.so pmu.c -lpthread
 *
 * Sources: Intel SDM volume 3, chapter "Performance Monitoring", and volume 2, CPUID leaves 7, 0AH and 1AH; AMD APM volume 2,
 * section "Performance Monitoring Counters"; Linux, arch/arm64/include/asm/apple_m1_pmu.h.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "qemu_plugin_7.h"

EXPORTED int qemu_plugin_version = 7;

#define VCPUS 8
#define BIT(n) (1ull << (n))
#define WIDTH 48
#define WRAP BIT(WIDTH)

enum model { INTEL, AMD, HYBRID, CLAIM, APPLE } model;
enum mode { USER, KERNEL, MODES };

/* ---- What the emulator counts for us ---- */

static qemu_plugin_u64 executed[MODES];
/* Grows with each instruction; the overflow check runs when it has reached FULL. */
static qemu_plugin_u64 fuse;
#define FULL BIT(62)

static struct qemu_plugin_register *general[32], *cr0, *cr4, *cpsr, *pc;
enum { RAX, RCX, RDX, RBX };

static GByteArray *buffer(void)
{
	static __thread GByteArray *bytes;

	if (!bytes)
		bytes = g_byte_array_new();
	return g_byte_array_set_size(bytes, 0);
}

static uint64_t get(struct qemu_plugin_register *reg)
{
	GByteArray *bytes = buffer();
	uint64_t value = 0;

	if (reg && qemu_plugin_read_register(reg, bytes))
		memcpy(&value, bytes->data, bytes->len < sizeof(value) ? bytes->len : sizeof(value));
	return value;
}

static void set(struct qemu_plugin_register *reg, uint64_t value)
{
	GByteArray *bytes = buffer();

	g_byte_array_append(bytes, (uint8_t *)&value, sizeof(value));
	qemu_plugin_write_register(reg, bytes);
}

/*
 * Where an instruction is executed that was at an address when it was translated. A translation serves every address at which
 * its page is mapped, as with programs that are loaded elsewhere each time. QEMU's program counter tells the place, but is
 * behind within a translated block, by less than a page.
 */
static uint64_t executed_at(uint64_t address)
{
	uint64_t behind = get(pc);

	return behind + ((address - behind) & 0xfff);
}

/* What tells an instruction, and where it is in its page, in one word. */
static void *packed(uint64_t address, uint32_t code)
{
	return (void *)(uintptr_t)((address & 0xfff) | (uint64_t)code << 12);
}

/* ---- Counters ---- */

enum kind { NOTHING, INSTRUCTIONS, CYCLES };

struct use {
	enum kind kind;
	bool counts, user, kernel, interrupt;
};

/* Instructions since the last time, by mode. */
static void since(unsigned vcpu, uint64_t seen[MODES], uint64_t passed[MODES])
{
	for (int mode = 0; mode < MODES; mode++) {
		uint64_t now = qemu_plugin_u64_get(executed[mode], vcpu);

		passed[mode] = now - seen[mode];
		seen[mode] = now;
	}
}

static uint64_t counted(const struct use *use, const uint64_t passed[MODES])
{
	uint64_t instructions = (use->user ? passed[USER] : 0) + (use->kernel ? passed[KERNEL] : 0);

	if (!use->counts || use->kind == NOTHING)
		return 0;
	return use->kind == CYCLES ? 2 * instructions : instructions;
}

/* ---- Interrupts: QEMU injects an NMI when it is asked to on its monitor ---- */

static const char *monitor;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER, injected = PTHREAD_COND_INITIALIZER;
static uint64_t nmis_wanted, nmis_injected;

/* No longer than this does a CPU wait for its NMI; QEMU may be about to end. */
#define PATIENCE_S 5

/* The answer comes among events, which are told unasked. */
static bool tell(int monitor_fd, const char *command)
{
	char answer[1 << 16];
	size_t length = 0;

	if (write(monitor_fd, command, strlen(command)) <= 0)
		return false;
	for (;;) {
		ssize_t got = read(monitor_fd, answer + length, sizeof(answer) - 1 - length);

		if (got <= 0)
			return false;
		length += got;
		answer[length] = 0;
		if (strstr(answer, "\"return\"") || strstr(answer, "\"error\""))
			return true;
		if (length > sizeof(answer) / 2)
			length = 0;
	}
}

static int connected(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strncpy(address.sun_path, monitor, sizeof(address.sun_path) - 1);
	for (;;) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		if (!connect(fd, (void *)&address, sizeof(address)))
			return fd;
		close(fd);
		usleep(20000);
	}
}

static void inject_all(int fd)
{
	bool works = true;

	pthread_mutex_lock(&lock);
	while (works) {
		uint64_t number;

		while (nmis_wanted == nmis_injected)
			pthread_cond_wait(&wanted, &lock);
		number = nmis_wanted;
		pthread_mutex_unlock(&lock);
		works = tell(fd, "{\"execute\":\"inject-nmi\"}\n");
		pthread_mutex_lock(&lock);
		nmis_injected = works ? number : UINT64_MAX;
		pthread_cond_broadcast(&injected);
	}
	pthread_mutex_unlock(&lock);
}

static void *inject(void *unused)
{
	char greeting[4096];
	int fd = connected();

	(void)unused;
	if (read(fd, greeting, sizeof(greeting)) > 0 && tell(fd, "{\"execute\":\"qmp_capabilities\"}\n"))
		inject_all(fd);
	return NULL;
}

/*
 * The CPU waits until QEMU has noted the NMI, so that it takes it before its next translated block, however busy the host is. It
 * holds no lock of QEMU's here.
 */
static void interrupt(void)
{
	struct timespec until;
	uint64_t number;
	int late = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&lock);
	number = ++nmis_wanted;
	pthread_cond_signal(&wanted);
	while (nmis_injected < number && !late)
		late = pthread_cond_timedwait(&injected, &lock, &until);
	pthread_mutex_unlock(&lock);
}

/* ---- x86 ---- */

#define GENERAL 8
#define FIXED 4

static struct x86 {
	uint64_t select[GENERAL], counter[GENERAL], fixed[FIXED];
	uint64_t fixed_ctrl, global_ctrl, global_status;
	uint64_t seen[MODES];
} x86[VCPUS];

static int general_counters(unsigned vcpu)
{
	switch (model) {
	case AMD:
		return 6;
	case HYBRID:
		return vcpu ? 6 : 8;
	default:
		return 4;
	}
}

/* As on Alder Lake: leaf 0xa tells of what all core types have. */
static int common_counters(void)
{
	return model == HYBRID ? 6 : 4;
}

static enum kind x86_event(uint64_t select)
{
	switch (select & 0xffff) {
	case 0x00c0:
		return INSTRUCTIONS;
	case 0x003c:	/* unhalted core cycles */
	case 0x013c:	/* unhalted reference cycles */
		return CYCLES;
	case 0x0076:
		return model == AMD ? CYCLES : NOTHING;
	default:
		return NOTHING;
	}
}

static struct use general_use(const struct x86 *pmu, int n)
{
	uint64_t select = pmu->select[n];

	return (struct use) {
		.kind = x86_event(select),
		.user = select & BIT(16),
		.kernel = select & BIT(17),
		.interrupt = select & BIT(20),
		.counts = (select & BIT(22)) && (model == AMD || (pmu->global_ctrl & BIT(n))),
	};
}

static struct use fixed_use(const struct x86 *pmu, int n)
{
	static const enum kind kinds[FIXED] = { INSTRUCTIONS, CYCLES, CYCLES, NOTHING };
	uint64_t control = pmu->fixed_ctrl >> (4 * n);

	return (struct use) {
		.kind = kinds[n],
		.kernel = control & BIT(0),
		.user = control & BIT(1),
		.interrupt = control & BIT(3),
		.counts = (control & 3) && (pmu->global_ctrl & BIT(32 + n)),
	};
}

/* Lets a counter catch up. Returns how many instructions it can take before it overflows, or FULL. */
static uint64_t advance(struct x86 *pmu, uint64_t *counter, struct use use, uint64_t bit, const uint64_t passed[MODES],
			bool *overflowed)
{
	uint64_t value = *counter + counted(&use, passed);

	*counter = value & (WRAP - 1);
	if (value >= WRAP) {
		pmu->global_status |= bit;
		*overflowed |= use.interrupt;
	}
	if (!use.counts || !use.interrupt || use.kind == NOTHING)
		return FULL;
	return (WRAP - *counter) / (use.kind == CYCLES ? 2 : 1) + 1;
}

static void catch_up_x86(unsigned vcpu)
{
	struct x86 *pmu = &x86[vcpu];
	uint64_t passed[MODES], room = FULL, left;
	bool overflowed = false;

	since(vcpu, pmu->seen, passed);
	for (int n = 0; n < GENERAL; n++) {
		left = advance(pmu, &pmu->counter[n], general_use(pmu, n), BIT(n), passed, &overflowed);
		room = left < room ? left : room;
	}
	for (int n = 0; model != AMD && n < FIXED; n++) {
		left = advance(pmu, &pmu->fixed[n], fixed_use(pmu, n), BIT(32 + n), passed, &overflowed);
		room = left < room ? left : room;
	}
	qemu_plugin_u64_set(fuse, vcpu, FULL - room);
	if (overflowed && monitor)
		interrupt();
}

static void fuse_blew(unsigned vcpu, void *unused)
{
	(void)unused;
	catch_up_x86(vcpu);
}

/* The register of a number, and which bits of it can be written; NULL for those of others. */
static uint64_t *x86_register(struct x86 *pmu, unsigned vcpu, uint32_t number, uint64_t *mask)
{
	static uint64_t capabilities;
	uint32_t n = number - 0xc0010200;
	uint32_t counters = general_counters(vcpu);

	*mask = ~0ull;
	if (model == AMD) {
		if (n >= 2 * counters)
			return NULL;
		*mask = n & 1 ? WRAP - 1 : ~0ull;
		return n & 1 ? &pmu->counter[n / 2] : &pmu->select[n / 2];
	}
	if (number >= 0x186 && number < 0x186 + counters)
		return &pmu->select[number - 0x186];
	*mask = WRAP - 1;
	if (number >= 0xc1 && number < 0xc1 + counters)
		return &pmu->counter[number - 0xc1];
	if (number >= 0x309 && number < 0x309 + (model == HYBRID ? 4 : 3))
		return &pmu->fixed[number - 0x309];
	*mask = ~0ull;
	switch (number) {
	case 0x38d:
		return &pmu->fixed_ctrl;
	case 0x38e:
		*mask = 0;
		return &pmu->global_status;
	case 0x38f:
		return &pmu->global_ctrl;
	case 0x345:	/* IA32_PERF_CAPABILITIES: none */
		*mask = 0;
		return &capabilities;
	}
	return NULL;
}

static bool read_msr(unsigned vcpu, uint32_t number, uint64_t *value)
{
	uint64_t mask, *reg;

	if (model != AMD && number == 0x390) {
		*value = 0;
		return true;
	}
	reg = x86_register(&x86[vcpu], vcpu, number, &mask);
	if (!reg)
		return false;
	catch_up_x86(vcpu);
	*value = *reg;
	return true;
}

static bool write_msr(unsigned vcpu, uint32_t number, uint64_t value)
{
	struct x86 *pmu = &x86[vcpu];
	uint64_t mask, *reg;

	catch_up_x86(vcpu);
	if (model != AMD && number == 0x390) {
		pmu->global_status &= ~value;
		return true;
	}
	reg = x86_register(pmu, vcpu, number, &mask);
	if (!reg)
		return false;
	/* Without full-width writes, 32 bits of a counter are taken and their sign is extended. */
	if (model != AMD && number >= 0xc1 && number < 0xc1 + GENERAL)
		value = (uint64_t)(int64_t)(int32_t)value;
	*reg = (*reg & ~mask) | (value & mask);
	catch_up_x86(vcpu);
	return true;
}

static bool read_pmc(unsigned vcpu, uint32_t number, bool user, uint64_t *value)
{
	uint32_t n = number & 0xffff;

	if (user && !(get(cr4) & BIT(8)))
		return false;
	catch_up_x86(vcpu);
	if (number & BIT(30)) {
		if (model == AMD || n >= 3)
			return false;
		*value = x86[vcpu].fixed[n];
		return true;
	}
	if (n >= (uint32_t)general_counters(vcpu))
		return false;
	*value = x86[vcpu].counter[n];
	return true;
}

static void answer(uint32_t eax, uint32_t ebx, uint32_t ecx, uint32_t edx)
{
	set(general[RAX], eax);
	set(general[RBX], ebx);
	set(general[RCX], ecx);
	set(general[RDX], edx);
}

/* The leaves that tell of a PMU; those of others are QEMU's. */
static bool cpuid(unsigned vcpu)
{
	uint32_t leaf = get(general[RAX]), subleaf = get(general[RCX]);

	if (model == AMD) {
		if (leaf != 0x80000001)
			return false;
		/* A Zen with PERFCTR_CORE (ECX bit 23), and little else. */
		answer(0x00800f12, 0, BIT(0) | BIT(4) | BIT(5) | BIT(6) | BIT(8) | BIT(23), 0x2fd3fbff);
		return true;
	}
	if (leaf == 0xa) {
		answer(2 | common_counters() << 8 | WIDTH << 16 | 7 << 24, 0x7c, 0, 3 | WIDTH << 5);
		return true;
	}
	if (model == HYBRID && leaf == 7 && subleaf == 0) {
		answer(0, 0, 0, BIT(15));	/* hybrid */
		return true;
	}
	if (model == HYBRID && leaf == 0x1a) {
		answer(vcpu ? 0x20000001 : 0x40000001, 0, 0, 0);
		return true;
	}
	return false;
}

enum { WRMSR = 0x30, RDMSR = 0x32, RDPMC = 0x33, CPUID = 0xa2 };

static void on_x86(unsigned vcpu, void *userdata)
{
	uint64_t word = (uintptr_t)userdata, value = 0, address;
	uint32_t number;
	bool done = false, reads = false;

	if (!(get(cr0) & BIT(31)))
		return;		/* firmware: addresses may have a base */
	if (model == CLAIM && word >> 12 != CPUID)
		return;
	address = executed_at(word & 0xfff);
	number = get(general[RCX]);
	switch (word >> 12) {
	case WRMSR:
		value = (uint32_t)get(general[RAX]) | get(general[RDX]) << 32;
		done = write_msr(vcpu, number, value);
		break;
	case RDMSR:
		done = reads = read_msr(vcpu, number, &value);
		break;
	case RDPMC:
		done = reads = read_pmc(vcpu, number, !(address >> 63), &value);
		break;
	case CPUID:
		done = cpuid(vcpu);
		break;
	}
	if (reads) {
		set(general[RAX], (uint32_t)value);
		set(general[RDX], value >> 32);
	}
	if (done)
		qemu_plugin_set_pc(address + 2);
}

/* ---- Apple ---- */

#define APPLE_COUNTERS 10

static struct apple {
	uint64_t pmcr[5], pmesr[2], pmsr, pmc[APPLE_COUNTERS];
	uint64_t seen[MODES];
} apple[VCPUS];

/* PMC8 and PMC9 have their bits above those of interrupts. */
static struct use apple_use(const struct apple *pmu, int n)
{
	unsigned enable = n < 8 ? n : 32 + n - 8, user = n < 8 ? 8 + n : 40 + n - 8, kernel = n < 8 ? 16 + n : 48 + n - 8;
	unsigned event = n < 2 ? 0 : pmu->pmesr[n >= 6] >> (8 * (n < 6 ? n - 2 : n - 6)) & 0xff;
	enum kind kind = NOTHING;

	if (n == 0 || event == 0x02)	/* M1: CORE_ACTIVE_CYCLE */
		kind = CYCLES;
	else if (n == 1 || event == 0x8c)	/* M1: INST_ALL */
		kind = INSTRUCTIONS;
	return (struct use) {
		.kind = kind,
		.counts = pmu->pmcr[0] & BIT(enable),
		.user = pmu->pmcr[1] & BIT(user),
		.kernel = pmu->pmcr[1] & BIT(kernel),
	};
}

/* The highest bit of a counter is its overflow flag: it stays until it is written. */
static void catch_up_apple(unsigned vcpu)
{
	struct apple *pmu = &apple[vcpu];
	uint64_t passed[MODES];

	since(vcpu, pmu->seen, passed);
	for (int n = 0; n < APPLE_COUNTERS; n++) {
		struct use use = apple_use(pmu, n);

		pmu->pmc[n] = (pmu->pmc[n] + counted(&use, passed)) & (WRAP - 1);
		if (pmu->pmc[n] & BIT(WIDTH - 1))
			pmu->pmsr |= BIT(n);
	}
}

/* S3_1_C15_Cm_0: controls; S3_2_C15_Cm_0: counters, C8 skipped. */
static uint64_t *apple_register(struct apple *pmu, uint32_t code)
{
	unsigned op1 = code >> 16 & 7, crm = code >> 8 & 15, op2 = code >> 5 & 7;

	if (op2)
		return NULL;
	if (op1 == 1 && crm < 5)
		return &pmu->pmcr[crm];
	if (op1 == 1 && crm < 7)
		return &pmu->pmesr[crm - 5];
	if (op1 == 1 && crm == 13)
		return &pmu->pmsr;
	if (op1 == 2 && crm < 8)
		return &pmu->pmc[crm];
	if (op1 == 2 && (crm == 9 || crm == 10))
		return &pmu->pmc[crm - 1];
	return NULL;
}

static void on_apple(unsigned vcpu, void *userdata)
{
	uint64_t word = (uintptr_t)userdata;
	uint32_t code = word >> 12;
	struct apple *pmu = &apple[vcpu];
	uint64_t *reg = apple_register(pmu, code);
	unsigned n = code & 31;
	bool user = !(get(cpsr) & 0xc), reads = code & BIT(21);

	/* EL0 without PMCR0's bit 30: QEMU knows no such register, which is the same fault. */
	if (!reg || (user && !(pmu->pmcr[0] & BIT(30))))
		return;
	catch_up_apple(vcpu);
	if (!reads)
		*reg = n == 31 ? 0 : get(general[n]);
	else if (n != 31)
		set(general[n], *reg);
	qemu_plugin_set_pc(executed_at(word & 0xfff) + 4);
}

static bool is_apple(uint32_t code)
{
	return (code & 0xfff8f000) == 0xd538f000 || (code & 0xfff8f000) == 0xd518f000;
}

/* ---- Translation ---- */

static void translated_x86(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t length)
{
	uint64_t address = qemu_plugin_insn_vaddr(insn);

	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, fuse, 1);
	if (length < 2 || bytes[0] != 0x0f)
		return;
	if (bytes[1] == WRMSR || bytes[1] == RDMSR || bytes[1] == RDPMC || bytes[1] == CPUID)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_x86, QEMU_PLUGIN_CB_RW_REGS_PC,
						       packed(address, bytes[1]));
}

static void translated_apple(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t length)
{
	uint32_t code;

	if (length != 4)
		return;
	memcpy(&code, bytes, 4);
	if (!is_apple(code))
		return;
	qemu_plugin_register_vcpu_insn_exec_cb(insn, on_apple, QEMU_PLUGIN_CB_RW_REGS_PC,
					       packed(qemu_plugin_insn_vaddr(insn), code));
}

static void on_translation(struct qemu_plugin_tb *tb, void *unused)
{
	(void)unused;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t bytes[16];
		size_t length = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));
		/* Kernels of both live in the upper half. */
		enum mode mode = qemu_plugin_insn_vaddr(insn) >> 55 & 1 ? KERNEL : USER;

		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, executed[mode], 1);
		if (model == APPLE)
			translated_apple(insn, bytes, length);
		else
			translated_x86(insn, bytes, length);
	}
	if (model != APPLE)
		qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, fuse_blew, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_COND_GE,
							  fuse, FULL, NULL);
}

/* ---- Start ---- */

static void found(const qemu_plugin_reg_descriptor *reg)
{
	static const char *const names[] = { "rax", "rcx", "rdx", "rbx" };
	unsigned n;
	char rest;

	for (n = 0; n < 4; n++)
		if (!strcmp(reg->name, names[n]))
			general[n] = reg->handle;
	if (model == APPLE && sscanf(reg->name, "x%u%c", &n, &rest) == 1 && n < 31)
		general[n] = reg->handle;
	if (!strcmp(reg->name, "cr0"))
		cr0 = reg->handle;
	if (!strcmp(reg->name, "cr4"))
		cr4 = reg->handle;
	if (!strcmp(reg->name, "cpsr"))
		cpsr = reg->handle;
	if (!strcmp(reg->name, "rip") || !strcmp(reg->name, "pc"))
		pc = reg->handle;
}

static void on_vcpu(unsigned vcpu, void *unused)
{
	GArray *registers = qemu_plugin_get_registers();

	(void)unused;
	if (vcpu >= VCPUS) {
		fprintf(stderr, "pmu: no more than %d CPUs\n", VCPUS);
		exit(1);
	}
	for (unsigned i = 0; i < registers->len; i++)
		found((const qemu_plugin_reg_descriptor *)registers->data + i);
	qemu_plugin_u64_set(fuse, vcpu, 0);
}

static bool option(const char *text)
{
	static const char *const models[] = { "pmu=intel", "pmu=amd", "pmu=hybrid", "pmu=claim", "pmu=apple" };

	for (int i = 0; i < 5; i++)
		if (!strcmp(text, models[i])) {
			model = i;
			return true;
		}
	if (strncmp(text, "qmp=", 4))
		return false;
	monitor = strdup(text + 4);
	return true;
}

EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	struct qemu_plugin_scoreboard *score = qemu_plugin_scoreboard_new(3 * sizeof(uint64_t));
	pthread_t thread;

	model = strcmp(info->target_name, "aarch64") ? INTEL : APPLE;
	for (int i = 0; i < argc; i++)
		if (!option(argv[i])) {
			fprintf(stderr, "pmu: unknown option %s\n", argv[i]);
			return -1;
		}
	if (strcmp(info->target_name, model == APPLE ? "aarch64" : "x86_64")) {
		fprintf(stderr, "pmu: not for %s\n", info->target_name);
		return -1;
	}
	executed[USER] = (qemu_plugin_u64) { score, 0 };
	executed[KERNEL] = (qemu_plugin_u64) { score, sizeof(uint64_t) };
	fuse = (qemu_plugin_u64) { score, 2 * sizeof(uint64_t) };
	if (monitor && pthread_create(&thread, NULL, inject, NULL))
		return -1;
	qemu_plugin_register_vcpu_init_cb(id, on_vcpu, NULL);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation, NULL);
	return 0;
}
