// Shuts itself off from the file system before its first CUDA call, as sandboxes and services do.
// Usage: jailed chroot DIRECTORY | seccomp
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "check.h"

// open and openat fail with EPERM from now on; everything else goes on as before.
static bool forbid_opening() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "chroot" && argc > 2) {
    if (chroot(argv[2]) != 0 || chdir("/") != 0) return 3;
  } else if (how == "seccomp") {
    if (!forbid_opening()) return 3;
  } else {
    return 2;
  }
  int version = 0;
  std::printf("cuDriverGetVersion: %s, %d\n", name_of(cuDriverGetVersion(&version)), version);
  std::printf("cuInit: %s\n", name_of(cuInit(0)));
  return 0;
}
