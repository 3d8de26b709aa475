// `gpufence inspect`, as a process: what it says of files of every kind. Of programs with CUDA in them,
// tests/process asks.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>

#include <nlohmann/json.hpp>

#include "tools/gpufence/elf.h"
#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::Ended;
using testing::gpufence;
using testing::in_tree;
using testing::program;
using testing::Scratch;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string kDynamic =
    "kind           64-bit x86-64, dynamic, started by /lib64/ld-linux-x86-64.so.2\n";
const std::string kNoSign =
    "reaches CUDA   no sign of it: what it opens later isn't seen here, and the fence meets it then\n"
    "GPU code       none embedded\n";
const std::string kHolds =
    "can be fenced  yes: driver calls, and a runtime that is shared\n"
    "simulated      yes: itself; what it opens later isn't seen here\n";

TEST(Inspect, APlainProgram) {
  const Ended ended = gpufence({"inspect", "/bin/true"});
  EXPECT_EQ(ended.out, "program        /bin/true\n" + kDynamic + kNoSign + kHolds);
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(gpufence({"inspect", "true"}).out,
            "program        /usr/bin/true\n" + kDynamic + kNoSign + kHolds);
}

TEST(Inspect, AStaticProgramCanNotBeHeld) {
  for (const char* kind : {"static", "static_pie"})
    EXPECT_EQ(gpufence({"inspect", program(kind)}).out,
              "program        " + program(kind) +
                  "\n"
                  "kind           64-bit x86-64, static\n" +
                  kNoSign +
                  "can be fenced  no: it is statically linked, so nothing can be preloaded into it; link it "
                  "dynamically\n"
                  "simulated      no: it can't be fenced, which --sim needs; link it dynamically\n");
}

TEST(Inspect, AnRpathThatLeadsToAnotherRuntime) {
  EXPECT_EQ(gpufence({"inspect", program("rpath")}).out,
            "program        " + program("rpath") + '\n' + kDynamic +
                "reaches CUDA   shared runtime: libcudart.so.13 → " + in_tree("genuine/libcudart.so.13") +
                " by DT_RPATH\n"
                "GPU code       none embedded\n"
                "can be fenced  yes: driver calls and the shared runtime\n"
                "simulated      no: its DT_RPATH leads to NVIDIA's own libcudart.so.13 in " +
                in_tree("genuine") +
                "; link it with -Wl,--enable-new-dtags, or remove the path with chrpath -d\n");
}

TEST(Inspect, AnRpathOfTheProgramCountsForItsLibrariesToo) {
  const std::string out = gpufence({"inspect", program("rpath_inherited")}).out;
  EXPECT_NE(out.find("reaches CUDA   libusesruntime.so: shared runtime: libcudart.so.13 → " +
                     in_tree("genuine/libcudart.so.13") + " by DT_RPATH\n"),
            std::string::npos)
      << out;
  EXPECT_NE(
      out.find("simulated      no: a DT_RPATH leads to " + in_tree("genuine/libcudart.so.13") +
               ", before the simulated one; link it with -Wl,--enable-new-dtags, or remove the path with "
               "chrpath -d\n"),
      std::string::npos)
      << out;
}

// A file may hold anything; a terminal must not.
TEST(Inspect, WhatAFileSaysIsShownEscaped) {
  const Scratch scratch;
  std::string bytes = content_of(program("sanitized"));
  const std::string name = "libasan.so.99";
  const std::size_t at = bytes.find(name);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, name.size(), "lib\x1b[1m.so.99");
  const std::string path = scratch.file("coloured", bytes, 0755);
  EXPECT_NE(gpufence({"inspect", path}).out.find("missing        lib\\x1b[1m.so.99, which coloured needs\n"),
            std::string::npos);
}

TEST(Inspect, WithAnyBytesChangedItIsAnAnswer) {
  const Scratch scratch;
  const std::string whole = content_of(program("rpath"));
  const std::string path = scratch.path() + "/changed";
  std::mt19937 random(1);
  for (int round = 0; round < 150; ++round) {
    std::string changed = whole;
    // Headers and dynamic section in front, section headers at the end.
    for (int bytes = 0; bytes < 4; ++bytes) {
      const std::size_t near = random() % 4096;
      const std::size_t at = bytes % 2 == 0 ? near : whole.size() - 1 - near;
      changed[at % whole.size()] = static_cast<char>(random());
    }
    (void)scratch.file("changed", changed, 0755);
    const Ended ended = gpufence({"inspect", path});
    EXPECT_LE(ended.status, 1) << round << ended.err;
    EXPECT_LE(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

TEST(Inspect, AScriptByItsInterpreter) {
  const Scratch scratch;
  const std::string script = scratch.file("script", "#!/usr/bin/env sh\n", 0755);
  EXPECT_EQ(
      gpufence({"inspect", script}).out,
      "program        " + script +
          "\n"
          "script         runs /usr/bin/sh\n" +
          kDynamic +
          "reaches CUDA   not by itself: what a shell starts is fenced with it, and looked at one by one\n"
          "GPU code       none embedded\n" +
          kHolds);
  const std::string none = scratch.file("none", "#!/nonexistent/interpreter\n", 0755);
  EXPECT_EQ(
      gpufence({"inspect", none}).out,
      "program        " + none +
          "\n"
          "kind           unknown\n"
          "can be fenced  no: it can't be started: its interpreter /nonexistent/interpreter doesn't exist; "
          "install it, or correct the first line\n"
          "simulated      no: it can't be started: its interpreter /nonexistent/interpreter doesn't exist; "
          "install it, or correct the first line\n");
}

TEST(Inspect, AProgramThatGainsPrivilegeAsItsUserStartsIt) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  const Scratch scratch;
  const std::string copy = scratch.file("setuid", content_of(program("plain")), 0755);
  ASSERT_EQ(::chown(copy.c_str(), 65534, 65534), 0);
  ASSERT_EQ(::chmod(copy.c_str(), 04755), 0);
  EXPECT_NE(
      gpufence({"inspect", copy})
          .out.find("can be fenced  no: it is setuid, so the loader drops LD_PRELOAD; start the program that "
                    "uses the GPU in another way\n"),
      std::string::npos);
}

TEST(Inspect, AFileThatMayNotBeExecuted) {
  const Scratch scratch;
  const std::string copy = scratch.file("plain", content_of(program("plain")), 0644);
  EXPECT_EQ(gpufence({"inspect", copy}).out,
            "program        " + copy + '\n' + kDynamic +
                "               not executable: chmod +x, or name its interpreter\n" + kNoSign + kHolds);
}

TEST(Inspect, ALibrary) {
  EXPECT_EQ(gpufence({"inspect", in_tree("standin/libasan.so.99")}).out,
            "program        " + in_tree("standin/libasan.so.99") +
                "\n"
                "kind           library, 64-bit x86-64\n" +
                kNoSign +
                "can be fenced  yes: with the program that loads it\n"
                "simulated      yes: itself; what it opens later isn't seen here\n");
}

// A 32-bit program, and one for Arm.
TEST(Inspect, AProgramOfAnotherMachine) {
  const Scratch scratch;
  std::string bytes = content_of(program("plain"));
  bytes[18] = '\xb7';  // EM_AARCH64
  const std::string arm = scratch.file("arm", bytes, 0755);
  EXPECT_EQ(
      gpufence({"inspect", arm}).out,
      "program        " + arm +
          "\n"
          "kind           program or library for 64-bit Arm\n"
          "can be fenced  no: it is a program for 64-bit Arm, and libgpufence.so is for 64-bit x86-64; use a "
          "build for 64-bit x86-64\n"
          "simulated      no: it can't be fenced, which --sim needs; use a build for 64-bit x86-64\n");
}

TEST(Inspect, WhatIsNoProgramIsOneLine) {
  const Scratch scratch;
  const std::string fifo = scratch.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0755), 0);
  const std::string empty = scratch.file("empty", "", 0755);
  const std::string garbage = scratch.file("garbage", std::string("\0\1\2\3", 4), 0755);
  const std::vector<std::pair<std::string, std::string>> files{
      {"no-such-program", "there is no such program in PATH; look at its spelling and at PATH"},
      {"/nonexistent/program", "there is no such program; look at its spelling"},
      {scratch.path(), "is a directory; name a program in it"},
      {"/dev/null", "is no ordinary file; name a program"},
      {fifo, "is no ordinary file; name a program"},
      {empty, "is empty; name a program"},
      {garbage, "is neither a program nor a script; name a program"}};
  for (const auto& [path, why] : files) {
    const Ended ended = gpufence({"inspect", path});
    EXPECT_EQ(ended.err, "gpufence: " + path + ": " + why + '\n');
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.status, 1);
  }
}

TEST(Inspect, WhatCanNotBeReadIsOneLine) {
  const Scratch scratch;
  const std::string copy = scratch.file("secret", content_of(program("plain")), 0111);
  if (::access(copy.c_str(), R_OK) == 0) GTEST_SKIP() << "root reads everything";
  EXPECT_EQ(gpufence({"inspect", copy}).err,
            "gpufence: " + copy + ": can't be read (Permission denied); make it readable\n");
}

TEST(Inspect, AFileThatIsCutOffAnywhereIsAnAnswer) {
  const Scratch scratch;
  const std::string whole = content_of(program("sanitized"));
  const std::string path = scratch.file("cut", whole, 0755);
  EXPECT_EQ(::truncate(path.c_str(), 64), 0);
  EXPECT_EQ(gpufence({"inspect", path}).out,
            "program        " + path +
                "\n"
                "kind           unknown\n"
                "can be fenced  no: it is damaged: " +
                cut_off(64, whole.size()) +
                "; build or copy it again\n"
                "simulated      no: it can't be fenced, which --sim needs; build or copy it again\n");
  for (std::size_t size = 1; size < whole.size(); size += 397) {
    (void)scratch.file("cut", whole.substr(0, size), 0755);
    const Ended ended = gpufence({"inspect", path});
    EXPECT_EQ(ended.status, size < 4 ? 1 : 0) << size << ended.err;
  }
}

// Headers that promise more than any file has.
TEST(Inspect, AHugeFileIsNotReadWhole) {
  const Scratch scratch;
  const std::string path = scratch.file("huge", content_of(program("plain")), 0755);
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 40), 0);
  const Ended ended = gpufence({"inspect", path});
  EXPECT_EQ(ended.out, "program        " + path + '\n' + kDynamic + kNoSign + kHolds);
}

TEST(Inspect, AsJson) {
  const auto out = nlohmann::json::parse(gpufence({"inspect", "--json", program("rpath")}).out);
  EXPECT_EQ(out.at("schema"), 1);
  EXPECT_EQ(out.at("program"), program("rpath"));
  EXPECT_EQ(out.at("image"), program("rpath"));
  EXPECT_EQ(out.at("executable"), true);
  EXPECT_EQ(out.at("parts").size(), 1u);
  EXPECT_EQ(out.at("parts").at(0).at("ways").at(0),
            "shared runtime: libcudart.so.13 → " + in_tree("genuine/libcudart.so.13") + " by DT_RPATH");
  EXPECT_EQ(out.at("fence").at("possible"), true);
  EXPECT_EQ(out.at("fence").at("remedy"), nullptr);
  EXPECT_EQ(out.at("simulation").at("possible"), false);
}

TEST(Inspect, HelpAndMistakes) {
  EXPECT_EQ(gpufence({"inspect", "-h"}).out,
            "gpufence inspect [--json] PROGRAM|PID   exit status 0: told, 1: can't be read, 2: wrong usage\n"
            "                                        (a program whose name is a number: ./4711)\n"
            "      --json                  as JSON, with stable keys\n"
            "  -h, --help                  this text\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"inspect"}, "inspect: no program and no PID is named; write gpufence inspect PROGRAM|PID"},
      {{"inspect", "--frob", "x"}, "--frob: this version has no such option; see gpufence inspect -h"},
      {{"inspect", "a", "b"}, "b: inspect takes one program or PID; see gpufence inspect -h"}};
  for (const auto& [words, line] : wrong) {
    const Ended ended = gpufence(words);
    EXPECT_EQ(ended.err, "gpufence: " + line + '\n');
    EXPECT_EQ(ended.status, 2);
  }
  const Ended gone = gpufence({"inspect", "999999999"});
  EXPECT_EQ(gone.err, "gpufence: pid 999999999: there is no such process; look at ps\n");
  EXPECT_EQ(gone.status, 1);
}

}  // namespace
}  // namespace gpufence::command
