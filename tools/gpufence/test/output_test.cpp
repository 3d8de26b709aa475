// What is printed where: one line an error, whatever is in it; and a stdout that can't be written is an
// error.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tools/gpufence/command.h"
#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::Ended;
using testing::in_tree;
using testing::program;
using testing::Scratch;

Ended shell(const std::string& line) {
  return testing::spawn(
      {"/bin/bash", "-c", line},
      {"PATH=/usr/bin:/bin", "LD_LIBRARY_PATH=" + in_tree("standin"), "ASAN_OPTIONS=detect_leaks=0",
       "G=" + in_tree("bin/gpufence"), "P=" + program("plain")});
}

TEST(Line, ControlCharactersAndWhatIsNoUtf8AreEscaped) {
  EXPECT_EQ(line_of({"--x a\nb\tc\r", "'\x1b[31m\x7f\x01' is \xff\xc3(", ""}),
            "gpufence: --x a\\nb\\tc\\r: '\\x1b[31m\\x7f\\x01' is \\xff\\xc3(\n");
  EXPECT_EQ(line_of({"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "is kept", ""}),
            "gpufence: gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80: is kept\n");
  // A C1 control, a line separator, a turn of direction, an overlong slash, half a surrogate pair.
  EXPECT_EQ(line_of({"\xc2\x9b|\xe2\x80\xa8|\xe2\x80\xae|\xc0\xaf|\xed\xa0\x80", "x", ""}),
            "gpufence: \\xc2\\x9b|\\xe2\\x80\\xa8|\\xe2\\x80\\xae|\\xc0\\xaf|\\xed\\xa0\\x80: x\n");
  EXPECT_EQ(line_of({std::string("a\0b", 3), "x", "y"}), "gpufence: a\\x00b: x; y\n");
}

TEST(Line, LongValuesAreCutAndCounted) {
  EXPECT_EQ(line_of({std::string(200, 'a'), "x", ""}), "gpufence: " + std::string(200, 'a') + ": x\n");
  EXPECT_EQ(line_of({std::string(201, 'a'), "x", ""}),
            "gpufence: " + std::string(200, 'a') + "… (201 characters): x\n");
  EXPECT_EQ(line_of({"--d", "'" + std::string(5000, 'b') + "' is none", "write " + std::string(300, 'c')}),
            "gpufence: --d: '" + std::string(200, 'b') + "…' (5000 characters) is none; write " +
                std::string(200, 'c') + "… (300 characters)\n");
  std::string blanks;
  for (int i = 0; i < 500; ++i) blanks += "x ";
  EXPECT_EQ(line_of({"--d", "'" + blanks + "' doesn't do", ""}),
            "gpufence: --d: '" + blanks.substr(0, 200) + "…' (1000 characters) doesn't do\n");
  std::string many;
  for (int i = 0; i < 300; ++i) many += "\xc3\xbc";
  EXPECT_EQ(line_of({many, "x", ""}), "gpufence: " + many.substr(0, 400) + "… (300 characters): x\n");
  EXPECT_LT(line_of({"a", std::string(100000, '\''), std::string(50000, ' ')}).size(), 5000u);
}

TEST(Line, EveryErrorOfTheCommandIsOne) {
  const std::string huge(20000, 'z');
  for (const std::vector<std::string>& words : {std::vector<std::string>{"run", "-d", huge, "--", "true"},
                                                {"run", "-m", huge, "--", "true"},
                                                {"run", "--sim", huge, "--", "true"},
                                                {"run", "--report-file", huge + "/x", "--", "true"},
                                                {"run", "--env", huge, "--", "true"},
                                                {"run", "--numbering", huge, "--", "true"},
                                                {"run", "--" + huge, "true"},
                                                {"run", "--", huge},
                                                {huge},
                                                {"devices", huge}}) {
    const Ended ended = testing::gpufence(words);
    EXPECT_NE(ended.status, 0);
    EXPECT_LT(ended.err.size(), 1500u) << words[0] << ' ' << words.back().substr(0, 10);
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1);
    EXPECT_NE(ended.err.find("characters)"), std::string::npos) << ended.err;
  }
}

TEST(Stdout, ThatIsFullIsAnError) {
  const std::string full =
      "gpufence: stdout: can't be written (No space left on device); send the output to another place\n";
  for (const char* words : {"", "-h", "--help-all", "-V", "devices", "devices --json", "devices -h"}) {
    const Ended ended = shell(std::string("$G ") + words + " > /dev/full");
    EXPECT_EQ(ended.status, 1) << words;
    EXPECT_EQ(ended.err, full) << words;
  }
  for (const char* words : {"run --dry-run -- $P", "run -h", "run -V"}) {
    const Ended ended = shell(std::string("$G ") + words + " > /dev/full");
    EXPECT_EQ(ended.status, 125) << words;
    EXPECT_EQ(ended.err, full) << words;
  }
}

TEST(Stdout, ThatIsClosedIsAnError) {
  const std::string closed =
      "gpufence: stdout: can't be written (Bad file descriptor); send the output to another place\n";
  for (const char* words : {"-h", "-V", "devices", "run --dry-run -- $P"}) {
    const Ended ended = shell(std::string("$G ") + words + " >&-");
    EXPECT_EQ(ended.status, words[0] == 'r' ? 125 : 1) << words;
    EXPECT_EQ(ended.err, closed) << words;
  }
}

TEST(Stdout, ThatIsClosedIsClosedForTheProgramToo) {
  EXPECT_EQ(shell("$G run -d 0 -- bash -c '[ -L /proc/$$/fd/1 ]; echo $? >&2' >&-").err, "1\n");
  EXPECT_EQ(shell("$G run -d 0 -- bash -c '[ -L /proc/$$/fd/0 ]; echo $?' <&-").out, "1\n");
}

TEST(Stdout, OfAReaderThatLeavesIsASilentEnd) {
  const Ended ended = shell("$G devices | true; [ ${PIPESTATUS[0]} = 0 -o ${PIPESTATUS[0]} = 141 ]");
  EXPECT_EQ(ended.err, "");
}

TEST(ReportFile, AFifoNeedsAReader) {
  const Scratch scratch;
  const std::string fifo = scratch.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0644), 0);
  const Ended alone = testing::gpufence({"run", "--report-file", fifo, "--", program("plain"), "x"});
  EXPECT_EQ(alone.status, 125);
  EXPECT_EQ(alone.out, "");
  EXPECT_EQ(alone.err,
            "gpufence: --report-file " + fifo + ": is a FIFO that has no reader; start the reader first\n");
  // Descriptor 3 is a reader that is there from before the start until the program has written.
  const Ended read = shell("exec 3<>" + fifo + "; $G run --report-file " + fifo +
                           " -- bash -c 'echo report > " + fifo + "'; head -n 1 <&3");
  EXPECT_EQ(read.out, "report\n");
  EXPECT_EQ(read.err, "");
  EXPECT_EQ(testing::gpufence({"run", "--dry-run", "--report-file", fifo, "--", program("plain")}).status, 0);
}

TEST(ReportFile, WhatTakesNoReportIsRefusedBeforeTheStart) {
  const Scratch scratch;
  const auto error = [&](const std::string& path) {
    const Ended ended = testing::gpufence({"run", "--report-file", path, "--", program("plain"), "x"});
    EXPECT_EQ(ended.status, 125) << path;
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  EXPECT_EQ(
      error("/dev/full"),
      "gpufence: --report-file /dev/full: can't be written (No space left on device); write another path\n");
  EXPECT_EQ(error("/usr"), "gpufence: --report-file /usr: is a directory; write the path of a file\n");
  const std::string link = scratch.path() + "/link";
  ASSERT_EQ(::symlink("/nonexistent/target", link.c_str()), 0);
  EXPECT_EQ(error(link), "gpufence: --report-file " + link +
                             ": /nonexistent is no directory that can be written to; write another path\n");
  EXPECT_NE(error("/tmp/" + std::string(300, 'n')).find("can't be written (File name too long)"),
            std::string::npos);
  EXPECT_EQ(testing::gpufence({"run", "--report-file", "/dev/null", "--", program("plain"), "x"}).out, "x\n");
  const std::string kept = scratch.file("kept", "before");
  EXPECT_EQ(testing::gpufence({"run", "--report-file", kept, "--", "/bin/cat", kept}).out, "before");
}

}  // namespace
}  // namespace gpufence::command
