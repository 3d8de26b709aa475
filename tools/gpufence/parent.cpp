// See parent.h. All signals are taken one after the other with sigwaitinfo: no handler, no race.
#include "tools/gpufence/parent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/gpufence/command.h"

namespace gpufence::command {
namespace {

// Those that are meant for a program, and SIGCHLD. SIGSTOP and SIGKILL can't be taken; a fault is our own.
sigset_t taken_signals() {
  sigset_t taken;
  sigfillset(&taken);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS})
    sigdelset(&taken, fault);
  // A write of ours to a closed stderr.
  sigdelset(&taken, SIGPIPE);
  return taken;
}

// What a terminal sends goes to the whole process group, the program included. So does kill with the number
// of a group, but that can't be told from a kill of this process alone, which must be passed on: the program
// then has the signal twice.
bool reached_the_program(const siginfo_t& sent) {
  return sent.si_code == SI_KERNEL;
}

}  // namespace

Ended wait_for_child(const std::function<int()>& child) {
  const sigset_t taken = taken_signals();
  sigset_t before;
  struct sigaction reaped {};
  struct sigaction chld {};
  // Where SIGCHLD is ignored, as some starters leave it, nobody can wait for a child.
  chld.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &chld, &reaped);
  ::sigprocmask(SIG_BLOCK, &taken, &before);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    say({"run", std::string("no process can be started (") + std::strerror(errno) + ')',
         "see the limits: ulimit -u"});
    return {kFailed, 0};
  }
  if (pid == 0) {
    // SIGKILL is the one that can't be passed on.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kFailed);
    ::sigaction(SIGCHLD, &reaped, nullptr);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::_exit(child());
  }

  bool stopped = false;
  while (true) {
    siginfo_t sent{};
    const int signal = ::sigwaitinfo(&taken, &sent);
    if (signal < 0) continue;
    int status = 0;
    // Looked at whatever came: a SIGCONT to both may be seen here before the child's SIGCHLD.
    while (::waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == pid) {
      if (WIFEXITED(status)) return {WEXITSTATUS(status), 0};
      if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
      stopped = WIFSTOPPED(status);
      // Stopped from a terminal: stop too, so that the shell has its prompt back. Not with a SIGSTOP that was
      // sent to the program alone, since the SIGCONT will be so too.
      if (stopped && WSTOPSIG(status) != SIGSTOP) ::kill(::getpid(), SIGSTOP);
    }
    if (signal == SIGCHLD) continue;
    if (signal == SIGCONT ? stopped : !reached_the_program(sent)) ::kill(pid, signal);
  }
}

int end_as(const Ended& ended) {
  if (ended.signal == 0) return ended.status;
  // The program has left its core, if it was to leave one.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::signal(ended.signal, SIG_DFL);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
  ::kill(::getpid(), ended.signal);
  return 128 + ended.signal;
}

}  // namespace gpufence::command
