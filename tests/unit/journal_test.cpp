// The journal: whole lines, once a place, ten a run, everything counted; records in the run's directory and
// the log.
#include "journal/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
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

struct Directory {
  Directory() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string path = std::filesystem::temp_directory_path() / "gpufence-journal-XXXXXX";
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::size_t lines_of(const std::string& path) {
  const std::string text = text_of(path);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Of a run in a state directory of its own.
Settings settings(const Directory& at, int descriptor) {
  Settings out{Severity::warning, 10, descriptor};
  out.run_id = "20261130-191038-7";
  out.state_directory = at.path + "/gpufence";
  out.run_directory = at.path + "/gpufence/20261130-191038-7";
  return out;
}

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
                                "3 more: --log FILE keeps them\n");
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

TEST(Journal, NothingToSayMakesNoDirectory) {
  const Directory at;
  Pipe out;
  {
    Journal journal(settings(at, out.ends[1]));
    journal.count("GF401");
    journal.close();
  }
  EXPECT_FALSE(std::filesystem::exists(at.path + "/gpufence"));
}

TEST(Journal, TheRunsDirectoryIsPrivateAndHoldsWhatIsBelowTheLevelToo) {
  const Directory at;
  Pipe out;
  Journal journal(settings(at, out.ends[1]));
  journal.say({"GF107", Severity::info, "remapped"});
  EXPECT_EQ(out.read_all(), "");
  struct stat status {};
  ASSERT_EQ(stat((at.path + "/gpufence/20261130-191038-7").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  ASSERT_EQ(stat((at.path + "/gpufence/20261130-191038-7/records.jsonl").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(lines_of(at.path + "/gpufence/20261130-191038-7/records.jsonl"), 1u);
}

TEST(Journal, TheLimitIsOneOfTheWholeRunAndTheEndSaysWhereTheRestIs) {
  const Directory at;
  Pipe out;
  Journal first(settings(at, out.ends[1]));
  Journal second(settings(at, out.ends[1]));
  for (int i = 0; i < 8; ++i) {
    first.say({"GF102", Severity::warning, "f", "f" + std::to_string(i)});
    second.say({"GF102", Severity::warning, "s", "s" + std::to_string(i)});
  }
  first.close();
  second.close();
  const std::string text = out.read_all();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 11);
  EXPECT_TRUE(text.ends_with(lead() + "6 more: gpufence last\n")) << text;
}

TEST(Journal, TheSameFindingOfAnotherProcessIsRecordedAndNotSaid) {
  const Directory at;
  Pipe out;
  Journal first(settings(at, out.ends[1]));
  Journal second(settings(at, out.ends[1]));
  first.say({.code = "GF203",
             .message = "kernel saxpy; thread worker-1",
             .once = "0x7f0010/0/1",
             .site = {.object = "app", .offset = 16},
             .device = {.uuid = "GPU-a"}});
  second.say({.code = "GF203",
              .message = "kernel saxpy; thread worker-2",
              .once = "0x7f9910/0/1",
              .site = {.object = "app", .offset = 16},
              .device = {.uuid = "GPU-a"}});
  second.say({.code = "GF203",
              .message = "other GPU",
              .once = "0x7f9910/1/1",
              .site = {.object = "app", .offset = 16},
              .device = {.uuid = "GPU-b"}});
  EXPECT_EQ(out.read_all(), lead() + "GF203 warning: kernel saxpy; thread worker-1\n" + lead() +
                                "GF203 warning: other GPU\n");
  EXPECT_EQ(lines_of(at.path + "/gpufence/20261130-191038-7/records.jsonl"), 3u);
}

// RLIMIT_FSIZE raises a signal at files that would grow too large, by fallocate too.
TEST(Journal, WhereFilesMayNotGrowTheProgramLives) {
  const Directory at;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    Pipe out;
    Journal journal(settings(at, out.ends[1]));
    journal.say({.code = "GF203", .message = "kernel saxpy", .once = "0/1"});
    _exit(out.read_all() == lead() + "GF203 warning: kernel saxpy\n" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Journal, ALoopThatGoesWrongInANewWayEachTimeDoesNotFillTheDisk) {
  const Directory at;
  Pipe out;
  Journal journal(settings(at, out.ends[1]));
  for (int i = 0; i < 2000; ++i)
    journal.say({.code = "GF101", .message = "ordinal " + std::to_string(i), .once = std::to_string(i)});
  journal.say({.code = "GF203", .message = "kernel saxpy", .once = "0/1"});
  EXPECT_EQ(journal.counts().at("GF101"), 2000u);
  EXPECT_EQ(lines_of(at.path + "/gpufence/20261130-191038-7/records.jsonl"), 501u);
}

TEST(Journal, WhatCameAgainIsRecordedWithItsCountAtTheEnd) {
  const Directory at;
  Pipe out;
  Journal journal(settings(at, out.ends[1]));
  journal.say({"GF401", Severity::warning, "refused", "GPU-a"});
  journal.count("GF401", "GPU-a");
  journal.say({"GF401", Severity::warning, "refused", "GPU-a"});
  journal.close();
  const std::string text = text_of(at.path + "/gpufence/20261130-191038-7/records.jsonl");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_NE(text.find("\"count\":1,"), std::string::npos) << text;
  EXPECT_NE(text.find("\"count\":3,"), std::string::npos) << text;
}

TEST(Journal, AnIgnoredCodeIsCountedOnly) {
  const Directory at;
  Pipe out;
  Settings asked = settings(at, out.ends[1]);
  asked.ignored = {"GF104"};
  Journal journal(asked);
  journal.say({"GF104", Severity::warning, "order"});
  EXPECT_EQ(out.read_all(), "");
  EXPECT_EQ(journal.counts().at("GF104"), 1u);
  EXPECT_FALSE(std::filesystem::exists(at.path + "/gpufence"));
}

TEST(Journal, ALogThatCanNotBeWrittenIsOneLine) {
  Pipe out;
  Settings asked{Severity::warning, 10, out.ends[1]};
  asked.log = "/dev/full";
  Journal journal(asked);
  journal.say({"GF104", Severity::warning, "order"});
  journal.say({"GF105", Severity::warning, "outside"});
  EXPECT_EQ(out.read_all(),
            lead() +
                "GF502 error: the log /dev/full can't be written (No space left on device): findings are "
                "missing there; write another --log\n" +
                lead() + "GF104 warning: order\n" + lead() + "GF105 warning: outside\n");
  EXPECT_EQ(journal.counts().at("GF502"), 1u);
}

TEST(Journal, ALogThatWasRotatedIsMadeAgain) {
  const Directory at;
  Pipe out;
  Settings asked{Severity::off, 10, out.ends[1]};
  asked.log = at.path + "/log";
  Journal journal(asked);
  journal.say({"GF104", Severity::warning, "one"});
  std::filesystem::rename(at.path + "/log", at.path + "/log.1");
  journal.say({"GF105", Severity::warning, "two"});
  EXPECT_NE(text_of(at.path + "/log.1").find("\"message\":\"one\""), std::string::npos);
  EXPECT_NE(text_of(at.path + "/log").find("\"message\":\"two\""), std::string::npos);
}

TEST(Journal, StderrTakesRecordsAndColors) {
  Pipe plain;
  Settings asked{Severity::warning, 10, plain.ends[1]};
  asked.color = true;
  Journal(asked).say({"GF104", Severity::warning, "name \x1b[2J\nnext"});
  EXPECT_EQ(plain.read_all(), lead() + "GF104 \x1b[33mwarning\x1b[0m: name ?[2J?next\n");
  Pipe json;
  asked = {Severity::warning, 10, json.ends[1]};
  asked.json = true;
  Journal(asked).say({"GF104", Severity::warning, "order"});
  EXPECT_TRUE(json.read_all().starts_with("{\"api\":null,\"bytes\":null,"));
}
