// Runs `kernel` as often as it is told to, with no privilege but to read, write and exit.
// Numbers: Linux include/uapi/asm-generic/unistd.h, include/uapi/linux/prctl.h, include/uapi/linux/seccomp.h.
        .section .note.GNU-stack,"",@progbits
        .lcomm request, 16
        .lcomm memory, 1048576
        .text
        .globl cyclometer_start
cyclometer_start:
        mov x8, #167            // prctl(PR_SET_PDEATHSIG, SIGKILL)
        mov x0, #1
        mov x1, #9
        svc #0
        mov x8, #167            // prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        mov x0, #38
        mov x1, #1
        mov x2, #0
        mov x3, #0
        mov x4, #0
        svc #0
        mov x8, #167            // prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
        mov x0, #22
        mov x1, #1
        svc #0
        cbnz x0, 8f
1:      mov x8, #63             // read(0, request, 16): how often, and the answer
        mov x0, #0
        adrp x1, request
        add x1, x1, :lo12:request
        mov x2, #16
        svc #0
        cmp x0, #16
        b.ne 7f
2:      adrp x0, memory
        add x0, x0, :lo12:memory
        bl kernel
        adrp x1, request
        add x1, x1, :lo12:request
        ldr x2, [x1]
        subs x2, x2, #1
        str x2, [x1]
        b.ne 2b
        mov x8, #64             // write(1, request + 8, 8)
        mov x0, #1
        add x1, x1, #8
        mov x2, #8
        svc #0
        b 1b
7:      mov x0, #0
        b 9f
8:      mov x0, #99
9:      mov x8, #93             // exit
        svc #0
