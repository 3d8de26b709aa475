/* The exported names on x86-64. Each thunk loads its slot and jumps, so that the callee sees the program's own
 * return address and registers; no compiler promises a tail call. A slot starts at its first-call stub, which
 * asks gate_resolve where to go and jumps there with every argument register as it was.
 * gate_hooks.inc is made by the build from the records of the linked core. */

#define GATE_HOOK(index, name, node, version) gate_hook index, name, node, version

        .macro gate_hook index, name, node, version
        .section .text.thunks, "ax", @progbits
        .balign 16
    .if \node < 10
        .globl  \name
        .type   \name, @function
\name:
    .else
        .globl  gate_\name\()_\node
        .type   gate_\name\()_\node, @function
    .if \node == 13
        .symver gate_\name\()_\node, \name\()@@\version
    .else
        .symver gate_\name\()_\node, \name\()@\version
    .endif
gate_\name\()_\node:
    .endif
        movq    gate_slots + 8 * \index(%rip), %r11
        jmp     *%r11
    .if \node < 10
        .size   \name, . - \name
    .else
        .size   gate_\name\()_\node, . - gate_\name\()_\node
    .endif

        .section .text.first, "ax", @progbits
first_call_\index:
        movl    $\index, %r11d
        jmp     first_call

        .section .data.slots, "aw", @progbits
        .quad   first_call_\index
        .endm

        .section .text.thunks, "ax", @progbits
        .balign 16
        .globl  gate_thunks
        .hidden gate_thunks
gate_thunks:
        .section .data.slots, "aw", @progbits
        .balign 8
        .globl  gate_slots
        .hidden gate_slots
gate_slots:

#include "gate_hooks.inc"

        .text
/* r11d: the hook's index; everything else belongs to the caller of the hook. */
        .type   first_call, @function
first_call:
        .cfi_startproc
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        subq    $192, %rsp
        movq    %rdi, -8(%rbp)
        movq    %rsi, -16(%rbp)
        movq    %rdx, -24(%rbp)
        movq    %rcx, -32(%rbp)
        movq    %r8, -40(%rbp)
        movq    %r9, -48(%rbp)
        movq    %rax, -56(%rbp)
        movups  %xmm0, -80(%rbp)
        movups  %xmm1, -96(%rbp)
        movups  %xmm2, -112(%rbp)
        movups  %xmm3, -128(%rbp)
        movups  %xmm4, -144(%rbp)
        movups  %xmm5, -160(%rbp)
        movups  %xmm6, -176(%rbp)
        movups  %xmm7, -192(%rbp)
        movl    %r11d, %edi
        movq    8(%rbp), %rsi
        call    gate_resolve
        movq    %rax, %r11
        movq    -8(%rbp), %rdi
        movq    -16(%rbp), %rsi
        movq    -24(%rbp), %rdx
        movq    -32(%rbp), %rcx
        movq    -40(%rbp), %r8
        movq    -48(%rbp), %r9
        movq    -56(%rbp), %rax
        movups  -80(%rbp), %xmm0
        movups  -96(%rbp), %xmm1
        movups  -112(%rbp), %xmm2
        movups  -128(%rbp), %xmm3
        movups  -144(%rbp), %xmm4
        movups  -160(%rbp), %xmm5
        movups  -176(%rbp), %xmm6
        movups  -192(%rbp), %xmm7
        leave
        .cfi_def_cfa %rsp, 8
        jmp     *%r11
        .cfi_endproc
        .size   first_call, . - first_call

/* glibc takes the return address of dlsym for the caller (RTLD_NEXT, RTLD_DEFAULT), so whatever is not answered
 * here is jumped to. gate_dlsym and gate_dlvsym return the answer in rax, or the function to jump to in rdx. */
        .type   gate_entry_dlsym, @function
        .globl  gate_entry_dlsym
        .hidden gate_entry_dlsym
gate_entry_dlsym:
        .cfi_startproc
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), %rdx
        call    gate_dlsym
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rdx, %rdx
        jne     1f
        ret
1:      jmp     *%rdx
        .cfi_endproc
        .size   gate_entry_dlsym, . - gate_entry_dlsym

        .type   gate_entry_dlvsym, @function
        .globl  gate_entry_dlvsym
        .hidden gate_entry_dlvsym
gate_entry_dlvsym:
        .cfi_startproc
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), %rcx
        call    gate_dlvsym
        movq    %rdx, %r11
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %r11, %r11
        jne     1f
        ret
1:      jmp     *%r11
        .cfi_endproc
        .size   gate_entry_dlvsym, . - gate_entry_dlvsym

/* Two versions of each name: programs linked before and since glibc 2.34 ask for different ones. */
        .macro two_versions name
        .globl  gate_\name\()_old
        .type   gate_\name\()_old, @function
        .symver gate_\name\()_old, \name\()@GLIBC_2.2.5
gate_\name\()_old:
        jmp     gate_entry_\name
        .size   gate_\name\()_old, . - gate_\name\()_old
        .globl  gate_\name\()_new
        .type   gate_\name\()_new, @function
        .symver gate_\name\()_new, \name\()@@GLIBC_2.34
gate_\name\()_new:
        jmp     gate_entry_\name
        .size   gate_\name\()_new, . - gate_\name\()_new
        .endm
        two_versions dlsym
        two_versions dlvsym

        .section .note.GNU-stack, "", @progbits
