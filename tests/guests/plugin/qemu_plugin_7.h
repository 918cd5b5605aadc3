/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What pmu.c uses of the interface between QEMU and its plugins, version 7 (QEMU 11), declared by hand: so that building
 * needs neither QEMU's nor GLib's headers. Names, types and meanings are those of QEMU's include/plugins/qemu-plugin.h.
 */
#ifndef QEMU_PLUGIN_7_H
#define QEMU_PLUGIN_7_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

/* GLib's arrays, the part of them that is public. */
typedef struct { char *data; unsigned len; } GArray;
typedef struct { uint8_t *data; unsigned len; } GByteArray;
GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *, unsigned);
GByteArray *g_byte_array_append(GByteArray *, const uint8_t *, unsigned);

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_plugin_register;

typedef struct {
	const char *target_name;
	struct { int min, cur; } version;
	bool system_emulation;
	int smp_vcpus, max_vcpus;
} qemu_info_t;

typedef struct { struct qemu_plugin_scoreboard *score; size_t offset; } qemu_plugin_u64;

typedef struct {
	struct qemu_plugin_register *handle;
	const char *name, *feature;
	bool is_readonly;
} qemu_plugin_reg_descriptor;

enum { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_CB_RW_REGS, QEMU_PLUGIN_CB_RW_REGS_PC };
enum { QEMU_PLUGIN_COND_GE = 7 };
enum { QEMU_PLUGIN_INLINE_ADD_U64 = 0 };

typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned vcpu, void *userdata);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(struct qemu_plugin_tb *, void *userdata);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, qemu_plugin_vcpu_udata_cb_t, void *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, qemu_plugin_vcpu_tb_trans_cb_t, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, qemu_plugin_vcpu_udata_cb_t, int flags, void *);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *, int op, qemu_plugin_u64, uint64_t);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *, qemu_plugin_vcpu_udata_cb_t, int flags,
					       int condition, qemu_plugin_u64, uint64_t, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
uint64_t qemu_plugin_u64_get(qemu_plugin_u64, unsigned vcpu);
void qemu_plugin_u64_set(qemu_plugin_u64, unsigned vcpu, uint64_t);
GArray *qemu_plugin_get_registers(void);
bool qemu_plugin_read_register(struct qemu_plugin_register *, GByteArray *);
bool qemu_plugin_write_register(struct qemu_plugin_register *, GByteArray *);
void qemu_plugin_set_pc(uint64_t);

#endif
