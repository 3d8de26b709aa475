// Writing into descriptors that are closed, full or broken.
#include "journal/write.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>

using gpufence::journal::write_quietly;

TEST(WriteQuietly, ABrokenPipeLosesTheTextAndRaisesNothing) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_FALSE(write_quietly(ends[1], "text\n"));  // SIGPIPE would end this test program
  EXPECT_EQ(errno, EPIPE);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  close(ends[1]);
}

TEST(WriteQuietly, ASigpipeThatWasPendingBeforeStaysPending) {
  sigset_t pipe_only, before, pending;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
  raise(SIGPIPE);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_FALSE(write_quietly(ends[1], "text\n"));
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 1);
  const timespec now{};
  sigtimedwait(&pipe_only, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[1]);
}

TEST(WriteQuietly, AFullPipeThatNobodyReadsIsGivenUp) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const std::string block(4096, 'x');
  while (write(ends[1], block.data(), block.size()) > 0) {
  }
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);  // blocking again, as a program's stderr is
  EXPECT_FALSE(write_quietly(ends[1], "text\n"));
  close(ends[0]);
  close(ends[1]);
}

TEST(WriteQuietly, MoreThanAPipeTakesAtOnceArrivesWhole) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text(20000, 'y');
  EXPECT_TRUE(write_quietly(ends[1], text));
  close(ends[1]);
  std::string got;
  char block[4096];
  for (ssize_t n; (n = read(ends[0], block, sizeof block)) > 0;)
    got.append(block, static_cast<std::size_t>(n));
  EXPECT_EQ(got, text);
  close(ends[0]);
}

TEST(WriteQuietly, AClosedDescriptorIsAnAnswer) {
  EXPECT_FALSE(write_quietly(-1, "text\n"));
}
