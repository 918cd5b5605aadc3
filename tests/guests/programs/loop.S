/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* LOOP, exit(0): 2 * ROUNDS + 4 instructions in user mode. */
#include "instructions.h"
	.globl _start
_start:
	LOOP			/* 1 + 2 * ROUNDS */
	SET0(0)
	CALL(EXIT)		/* 3 */
