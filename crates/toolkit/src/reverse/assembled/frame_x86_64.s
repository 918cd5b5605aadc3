# Runs `kernel` as often as it is told to, with no privilege but to read, write and exit.
# Numbers: Linux arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/linux/prctl.h, include/uapi/linux/seccomp.h.
        .section .note.GNU-stack,"",@progbits
        .lcomm request, 16
        .lcomm memory, 1048576
        .text
        .globl cyclometer_start
cyclometer_start:
        mov $157, %eax          # prctl(PR_SET_PDEATHSIG, SIGKILL)
        mov $1, %edi
        mov $9, %esi
        syscall
        mov $157, %eax          # prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        mov $38, %edi
        mov $1, %esi
        xor %edx, %edx
        xor %r10d, %r10d
        xor %r8d, %r8d
        syscall
        mov $157, %eax          # prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
        mov $22, %edi
        mov $1, %esi
        syscall
        mov $99, %edi
        test %rax, %rax
        jnz 9f
1:      xor %eax, %eax          # read(0, request, 16): how often, and the answer
        xor %edi, %edi
        lea request(%rip), %rsi
        mov $16, %edx
        syscall
        xor %edi, %edi
        cmp $16, %rax
        jne 9f
2:      lea memory(%rip), %rdi
        call kernel
        decq request(%rip)
        jnz 2b
        mov $1, %eax            # write(1, request + 8, 8)
        mov $1, %edi
        lea request+8(%rip), %rsi
        mov $8, %edx
        syscall
        jmp 1b
9:      mov $60, %eax           # exit
        syscall
