// The journal: whole lines, once a place, ten a process, everything counted.
#include "journal/journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

using gpufence::journal::Journal;
using gpufence::journal::Settings;
using gpufence::journal::Severity;

namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() { close(ends[0]); }
  std::string read_all() {
    close(ends[1]);
    std::string text;
    char block[4096];
    for (ssize_t n; (n = ::read(ends[0], block, sizeof block)) > 0;)
      text.append(block, static_cast<std::size_t>(n));
    return text;
  }
  int ends[2] = {-1, -1};
};

std::string lead() {
  return "gpufence[" + std::to_string(getpid()) + "] ";
}

}  // namespace

TEST(Journal, AFindingIsOneLineInTheWordsOfTheInterface) {
  Pipe out;
  Journal journal({Severity::warning, 10, out.ends[1]});
  journal.say({"GF401", Severity::warning, "cudaMalloc of 2 GiB refused", "0"});
  EXPECT_EQ(out.read_all(), lead() + "GF401 warning: cudaMalloc of 2 GiB refused\n");
}

TEST(Journal, TheSameFindingOfOnePlaceIsSaidOnceAndCountedAlways) {
  Pipe out;
  Journal journal({Severity::warning, 10, out.ends[1]});
  for (int i = 0; i < 5; ++i) journal.say({"GF101", Severity::warning, "ordinal 7", "app+0x10"});
  journal.say({"GF101", Severity::warning, "ordinal 8", "app+0x20"});
  journal.count("GF101");
  EXPECT_EQ(journal.counts().at("GF101"), 7u);
  EXPECT_EQ(out.read_all(), lead() + "GF101 warning: ordinal 7\n" + lead() + "GF101 warning: ordinal 8\n");
}

TEST(Journal, ARepeatedFindingIsCountedWithoutItsWords) {
  Pipe out;
  Journal journal({Severity::warning, 10, out.ends[1]});
  EXPECT_FALSE(journal.counted_again("GF203", "a"));
  journal.say({"GF203", Severity::warning, "stream", "a"});
  EXPECT_TRUE(journal.counted_again("GF203", "a"));
  EXPECT_FALSE(journal.counted_again("GF203", "b"));
  journal.say({"GF206", Severity::info, "copy", "a"});  // below the level, and known all the same
  EXPECT_TRUE(journal.counted_again("GF206", "a"));
  EXPECT_EQ(journal.counts().at("GF203"), 2u);
  EXPECT_EQ(journal.counts().at("GF206"), 2u);
}

TEST(Journal, WhatIsBelowTheLevelIsCountedOnly) {
  Pipe out;
  Journal journal({Severity::error, 10, out.ends[1]});
  journal.say({"GF103", Severity::warning, "mask", ""});
  journal.say({"GF501", Severity::error, "denied", ""});
  EXPECT_EQ(journal.counts().at("GF103"), 1u);
  EXPECT_EQ(out.read_all(), lead() + "GF501 error: denied\n");
}

TEST(Journal, TheLimitCutsAndTheEndSaysHowMany) {
  Pipe out;
  Journal journal({Severity::warning, 2, out.ends[1]});
  for (int i = 0; i < 5; ++i)
    journal.say({"GF101", Severity::warning, "m" + std::to_string(i), std::to_string(i)});
  journal.close();
  journal.close();
  EXPECT_EQ(out.read_all(), lead() + "GF101 warning: m0\n" + lead() + "GF101 warning: m1\n" + lead() +
                                "3 more findings; the report (--report) counts them by code\n");
}

TEST(Journal, LinesOfManyThreadsStayWhole) {
  Pipe out;
  Journal journal({Severity::warning, 1000, out.ends[1]});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        journal.say({"GF101", Severity::warning, std::string(40, static_cast<char>('a' + t)),
                     std::to_string(t * 50 + i)});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const std::string text = out.read_all();
  const std::string head = lead() + "GF101 warning: ";
  std::size_t at = 0, lines = 0;
  while (at < text.size()) {
    ASSERT_EQ(text.compare(at, head.size(), head), 0);
    const std::string body = text.substr(at + head.size(), 41);
    EXPECT_EQ(body, std::string(40, body[0]) + "\n");
    at += head.size() + 41;
    ++lines;
  }
  EXPECT_EQ(lines, 200u);
}

TEST(Journal, AClosedStderrIsNoFault) {
  Pipe out;
  const int gone = dup(out.ends[1]);
  close(gone);
  Journal journal({Severity::warning, 10, gone});
  journal.say({"GF401", Severity::warning, "nobody hears", ""});
  EXPECT_EQ(journal.counts().at("GF401"), 1u);
  EXPECT_EQ(out.read_all(), "");
}
