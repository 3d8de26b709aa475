// A child that is asked something: what it says, how long it is waited for, and that nothing of it stays with
// the process that the command becomes.
#include "tools/gpufence/child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace gpufence::command {
namespace {

using std::chrono::milliseconds;

std::string answer(const std::string& script, milliseconds patience = std::chrono::minutes(1)) {
  return answer_of("/bin/sh", {"sh", "-c", script}, Environment({"PATH=/usr/bin:/bin", "WORD=said"}),
                   patience)
      .value_or("no child");
}

TEST(Child, GivesWhatItWrote) {
  EXPECT_EQ(answer("echo one; echo $WORD; echo unheard >&2"), "one\nsaid\n");
  EXPECT_EQ(answer("cat"), "");  // nothing stands on its stdin
  EXPECT_EQ(answer("echo before; kill -9 $$"), "before\n");
}

TEST(Child, IsNotWaitedForForEver) {
  EXPECT_EQ(answer("echo never; exec sleep 1000", milliseconds(50)), "");
  EXPECT_EQ(answer("exec yes"), "");
  EXPECT_EQ(answer_of("/no/such/program", {"x"}, Environment(), milliseconds(50)).error(),
            "can't start a child: No such file or directory");
}

// Of the process itself, in one of its own: other tests have children too.
TEST(Child, LeavesNoTraceInTheProcess) {
  const pid_t tester = ::fork();
  if (tester == 0) {
    answer("echo one");
    answer("exec yes");
    rusage children{};
    ::getrusage(RUSAGE_CHILDREN, &children);
    struct sigaction now {};
    ::sigaction(SIGCHLD, nullptr, &now);
    const bool none = ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
    ::_exit((children.ru_maxrss == 0 ? 0 : 1) + (now.sa_handler == SIG_DFL ? 0 : 2) + (none ? 0 : 4));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(tester, &status, 0), tester);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace gpufence::command
