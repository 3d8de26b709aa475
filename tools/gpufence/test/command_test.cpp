// `gpufence run`, as a process: what the program finds, how it ends, and what is said when it can't begin.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::Ended;
using testing::gpufence;
using testing::in_tree;
using testing::program;
using testing::Scratch;

// The lines that one environment has and the other has not, but for the variable that names the run.
std::set<std::string> lines(const std::string& text) {
  std::set<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (line.compare(0, 13, "GPUFENCE_RUN=") != 0) result.insert(line);
  return result;
}

const std::string kGate = in_tree("lib/libgpufence.so");
constexpr const char* kUuids =
    "GPU-a0000000-0000-0000-0000-000000000000,GPU-a1000000-0000-0000-0000-000000000000,"
    "GPU-b2000000-0000-0000-0000-000000000000,GPU-b3000000-0000-0000-0000-000000000000";

std::string get(const std::vector<std::string>& options, const std::string& variable,
                const std::vector<std::string>& extra = {}) {
  std::vector<std::string> words{"run"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", program("plain"), "--get=" + variable});
  const Ended ended = gpufence(words, extra);
  return ended.out.substr(0, ended.out.size() - (ended.out.empty() ? 0 : 1)) + ended.err;
}

TEST(Run, BecomesTheProgram) {
  const Ended ended = gpufence({"run", "-d", "0", "--", program("plain"), "--pid"});
  EXPECT_EQ(ended.out, std::to_string(ended.pid) + '\n');
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.status, 0);
}

TEST(Run, EndsAsTheProgramEnds) {
  EXPECT_EQ(gpufence({"run", "--", program("plain"), "--exit", "7"}).status, 7);
  EXPECT_EQ(gpufence({"run", "-d", "0", "--", program("plain"), "--exit", "125"}).status, 125);
  EXPECT_EQ(gpufence({"run", "--", "sh", "-c", "kill -9 $$"}).status, 137);
}

TEST(Run, WhatFollowsTheProgramIsTheProgramsOwn) {
  EXPECT_EQ(gpufence({"run", "-d", "1", program("plain"), "-d", "4", "--", "--frob"}).out,
            "-d\n4\n--\n--frob\n");
}

TEST(Run, StdoutIsTheProgramsAlone) {
  const Ended ended = gpufence({"run", "-d", "0", "--report", "--", "bash", "-c", "echo a b | wc -w"});
  EXPECT_EQ(ended.out, "2\n");
  EXPECT_EQ(ended.err, "");
}

TEST(Run, ABareRunChangesNothingButThePreloadAndItsOwnVariables) {
  const std::vector<std::string> extra{"CUDA_VISIBLE_DEVICES=1,2", "ODD", "=strange", "EMPTY="};
  std::set<std::string> expected =
      lines(testing::spawn({"/usr/bin/env"}, {"CUDA_VISIBLE_DEVICES=1,2", "EMPTY=", "PATH=/usr/bin:/bin",
                                              "HOME=/nonexistent", "LD_LIBRARY_PATH=" + in_tree("standin"),
                                              "ASAN_OPTIONS=detect_leaks=0", "ODD", "=strange"})
                .out);
  expected.insert("LD_PRELOAD=" + kGate);
  expected.insert(std::string("GPUFENCE_GPUS=") + kUuids);
  EXPECT_EQ(lines(gpufence({"run", "--", "env"}, extra).out), expected);
}

TEST(Run, AViewIsSaidInTheEnvironment) {
  const std::set<std::string> found = lines(gpufence({"run", "-d", "2,0", "-m", "1GiB", "--", "env"}).out);
  for (const char* line :
       {"CUDA_VISIBLE_DEVICES=2,0", "GPUFENCE_MASK=2,0", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "GPUFENCE_NUMBERING=host",
        "GPUFENCE_VIEW=GPU-b2000000-0000-0000-0000-000000000000,GPU-a0000000-0000-0000-0000-000000000000",
        "GPUFENCE_GPU_MEM=1GiB"})
    EXPECT_EQ(found.count(line), 1u) << line;
  EXPECT_EQ(get({"-d", "3,1", "--numbering", "view"}, "CUDA_VISIBLE_DEVICES"), "0,1");
  EXPECT_EQ(get({"--devices=-3"}, "CUDA_VISIBLE_DEVICES"), "0,1,2");
  EXPECT_EQ(get({"-d", "-3"}, "CUDA_VISIBLE_DEVICES"), "0,1,2");
  EXPECT_EQ(get({"-d=GPU-b2,GPU-a1"}, "CUDA_VISIBLE_DEVICES"), "2,1");
  EXPECT_EQ(get({"-d", "0000:81:00.0"}, "CUDA_VISIBLE_DEVICES"), "2");
  EXPECT_EQ(get({"-d", "name:H100"}, "CUDA_VISIBLE_DEVICES"), "2,3");
  EXPECT_EQ(get({"-d", "none"}, "CUDA_VISIBLE_DEVICES"), "");
}

TEST(Run, LoudnessReportNameAndVariablesArePassedOn) {
  EXPECT_EQ(get({"-q"}, "GPUFENCE_STDERR"), "error");
  EXPECT_EQ(get({"-v"}, "GPUFENCE_STDERR"), "info");
  EXPECT_EQ(get({}, "GPUFENCE_STDERR"), "(unset)");
  EXPECT_EQ(get({"--report"}, "GPUFENCE_REPORT"), "stderr");
  EXPECT_EQ(get({"--name", "night job"}, "GPUFENCE_NAME"), "night job");
  EXPECT_EQ(get({"--env", "FOO=a=b"}, "FOO"), "a=b");
  EXPECT_EQ(get({"--env", "CUDA_VISIBLE_DEVICES=GPU-b3", "-d", "all"}, "CUDA_VISIBLE_DEVICES"), "3");
}

TEST(Run, AReportFileIsMadeAbsoluteAndCheckedBeforeTheStart) {
  const Scratch scratch;
  EXPECT_EQ(get({"--report-file", scratch.path() + "/r.json"}, "GPUFENCE_REPORT_FILE"),
            scratch.path() + "/r.json");
  EXPECT_NE(::access((scratch.path() + "/r.json").c_str(), F_OK), 0);
  EXPECT_EQ(get({"--report-file", "r.json"}, "GPUFENCE_REPORT_FILE").front(), '/');
  const Ended missing =
      gpufence({"run", "--report-file", "/nonexistent/r.json", "--", program("plain"), "x"});
  EXPECT_EQ(missing.status, 125);
  EXPECT_EQ(missing.err,
            "gpufence: --report-file /nonexistent/r.json: /nonexistent is no directory that can be written "
            "to; write another path\n");
  EXPECT_EQ(missing.out, "");
  EXPECT_EQ(gpufence({"run", "--report-file", scratch.path(), "--", program("plain")}).status, 125);
}

TEST(Run, OfARunItsNameTravels) {
  const std::string name = get({}, "GPUFENCE_RUN");
  ASSERT_GT(name.size(), 16u);
  EXPECT_EQ(name[8], '-');
  EXPECT_EQ(name[15], '-');
  const std::string inner = get({}, "GPUFENCE_RUN", {"GPUFENCE_RUN=outer"});
  EXPECT_EQ(inner.substr(0, 6), "outer/");
}

TEST(Run, RunsMayBeNested) {
  const std::string preload = gpufence({"run", "-d", "2,0", "--", in_tree("bin/gpufence"), "run", "-d", "0",
                                        "--", program("plain"), "--get=LD_PRELOAD"})
                                  .out;
  EXPECT_NE(preload.find(kGate), std::string::npos);
  EXPECT_EQ(preload.find(kGate), preload.rfind(kGate)) << preload;
  EXPECT_EQ(
      gpufence({"run", "-d", "2,0", "--numbering", "view", "-m", "0=4GiB", "--", in_tree("bin/gpufence"),
                "run", "-d", "1,0", "--", program("plain"), "--get=GPUFENCE_VIEW", "--get=GPUFENCE_GPU_MEM"})
          .out,
      "GPU-a0000000-0000-0000-0000-000000000000,GPU-b2000000-0000-0000-0000-000000000000\n1=4GiB\n");
  const Ended outside =
      gpufence({"run", "-d", "2,0", "--", in_tree("bin/gpufence"), "run", "-d", "1", "--", program("plain")});
  EXPECT_EQ(outside.status, 125);
  EXPECT_EQ(outside.err,
            "gpufence: --devices 1: host GPU 1 is outside CUDA_VISIBLE_DEVICES=2,0, which was inherited; "
            "choose among host GPUs 2,0\n");
}

TEST(Run, AnInheritedMaskIsReadInCudasOwnOrder) {
  // The first of the fastest is host GPU 2.
  EXPECT_EQ(get({"-d", "all"}, "CUDA_VISIBLE_DEVICES", {"CUDA_VISIBLE_DEVICES=0"}), "2");
  EXPECT_EQ(
      get({"-d", "all"}, "CUDA_VISIBLE_DEVICES", {"CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}),
      "0");
  const Ended outside = gpufence({"run", "-d", "0", "--", program("plain")},
                                 {"CUDA_VISIBLE_DEVICES=1,2", "CUDA_DEVICE_ORDER=PCI_BUS_ID"});
  EXPECT_EQ(outside.status, 125);
  EXPECT_EQ(outside.err,
            "gpufence: --devices 0: host GPU 0 is outside CUDA_VISIBLE_DEVICES=1,2, which was inherited; "
            "choose among host GPUs 1,2, or leave it with --ignore-mask\n");
  EXPECT_EQ(get({"-d", "0", "--ignore-mask"}, "CUDA_VISIBLE_DEVICES",
                {"CUDA_VISIBLE_DEVICES=1,2", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}),
            "0");
}

TEST(Run, ADriverThatCannotSayItsOrderIsOneLine) {
  const Ended failing = gpufence({"run", "-d", "0", "--", program("plain")},
                                 {"CUDA_VISIBLE_DEVICES=0", "STANDIN_DRIVER=no-device"});
  EXPECT_EQ(failing.status, 125);
  EXPECT_EQ(failing.err,
            "gpufence: CUDA_VISIBLE_DEVICES=0: which GPUs its numbers mean can't be told (cuInit: no "
            "CUDA-capable device is detected); set CUDA_DEVICE_ORDER=PCI_BUS_ID\n");
  const Ended dying = gpufence(
      {"run", "-d", "0", "--", program("plain")},
      {"CUDA_VISIBLE_DEVICES=0", "STANDIN_DRIVER=dies", "ASAN_OPTIONS=detect_leaks=0:handle_abort=0"});
  EXPECT_EQ(dying.status, 125);
  EXPECT_EQ(dying.err,
            "gpufence: CUDA_VISIBLE_DEVICES=0: which GPUs its numbers mean can't be told (the child that "
            "asked CUDA gave no answer); set CUDA_DEVICE_ORDER=PCI_BUS_ID\n");
}

TEST(Run, AMaskThatEndsEarlyIsSaidUnlessQuiet) {
  const std::vector<std::string> extra{"CUDA_VISIBLE_DEVICES=1,9", "CUDA_DEVICE_ORDER=PCI_BUS_ID"};
  const Ended loud =
      gpufence({"run", "-d", "all", "--", program("plain"), "--get=CUDA_VISIBLE_DEVICES"}, extra);
  EXPECT_EQ(loud.out, "1\n");
  EXPECT_EQ(loud.err,
            "gpufence: CUDA_VISIBLE_DEVICES=1,9: '9' is past the last GPU, 3, so CUDA reads no further; "
            "correct it where it is set\n");
  EXPECT_EQ(gpufence({"run", "-q", "-d", "all", "--", program("plain")}, extra).err, "");
}

TEST(Run, MistakesAre125InOneLine) {
  struct Mistake {
    std::vector<std::string> options;
    const char* line;
  };
  const Mistake mistakes[] = {
      {{"-m", "lots"},
       "gpufence: --gpu-mem lots: is no size; write a number with a unit: 8GiB, 512MiB, 1.5TiB\n"},
      {{"-m", "8"}, "gpufence: --gpu-mem 8: has no unit; write 8GiB if that is meant\n"},
      {{"-d", "9"},
       "gpufence: --devices 9: host GPU 9 doesn't exist; there are host GPUs 0 (T4, 0000:01:00.0), 1 (A100, "
       "0000:25:00.0), 2 (H100, 0000:81:00.0), 3 (H100, 0000:c1:00.0)\n"},
      {{"-d", "0,GPU-a0"},
       "gpufence: --devices 0,GPU-a0: host GPU 0 is named twice, by '0' and 'GPU-a0'; name it once\n"},
      {{"-d", "0", "-m", "1=8GiB"},
       "gpufence: --gpu-mem 1=8GiB: position 1 is beyond the view, which has 1 GPU; positions are 0 to 0\n"},
      {{"--wait"}, "gpufence: --wait: this version has no such option; see gpufence run -h\n"},
      {{"--devices"}, "gpufence: --devices: needs a value; write --devices LIST\n"},
      {{"-d", "a\nb"},
       "gpufence: --devices a\\nb: 'a\\nb' is no GPU, range or condition; there are host GPUs 0 (T4, "
       "0000:01:00.0), 1 (A100, 0000:25:00.0), 2 (H100, 0000:81:00.0), 3 (H100, 0000:c1:00.0)\n"},
  };
  for (const Mistake& mistake : mistakes) {
    for (const bool dry : {false, true}) {
      std::vector<std::string> words{"run"};
      if (dry) words.push_back("--dry-run");
      words.insert(words.end(), mistake.options.begin(), mistake.options.end());
      words.insert(words.end(), {"--", program("plain"), "x"});
      const Ended ended = gpufence(words);
      EXPECT_EQ(ended.status, 125) << mistake.line;
      EXPECT_EQ(ended.err, mistake.line);
      EXPECT_EQ(ended.out, "");
    }
  }
  const Ended none = gpufence({"run"});
  EXPECT_EQ(none.status, 125);
  EXPECT_EQ(none.err, "gpufence: run: no program is named; write gpufence run [OPTIONS] -- PROGRAM [ARG…]\n");
}

TEST(Run, AMissingProgramIs127) {
  for (const bool dry : {false, true}) {
    std::vector<std::string> words{"run", "-d", "0"};
    if (dry) words.push_back("--dry-run");
    words.insert(words.end(), {"--", "no-such-program"});
    const Ended ended = gpufence(words);
    EXPECT_EQ(ended.status, 127);
    EXPECT_EQ(
        ended.err,
        "gpufence: no-such-program: there is no such program in PATH; look at its spelling and at PATH\n");
  }
}

TEST(Run, WhatCannotBeExecutedIs126) {
  const Scratch scratch;
  const std::string text = scratch.file("text", "x", 0644);
  EXPECT_EQ(gpufence({"run", "--", text}).status, 126);
  EXPECT_EQ(gpufence({"run", "--", scratch.path()}).status, 126);
  const std::string orphan = scratch.file("orphan", "#!/nonexistent/interpreter\n", 0755);
  const Ended ended = gpufence({"run", "--", orphan});
  EXPECT_EQ(ended.status, 126);
  EXPECT_EQ(ended.err, "gpufence: " + orphan +
                           ": its interpreter /nonexistent/interpreter doesn't exist; install it, or correct "
                           "the first line\n");
  EXPECT_EQ(gpufence({"run", "-d", "0", "--", orphan}).err, ended.err);
  const std::string broken = scratch.file("broken", "\177ELF and no more", 0755);
  EXPECT_EQ(gpufence({"run", "-q", "--", broken}).status, 126);
  EXPECT_EQ(gpufence({"run", "-d", "0", "--", broken}).status, 126);
}

TEST(Run, AScriptWithoutAFirstLineIsTheShells) {
  const Scratch scratch;
  const Ended ended = gpufence(
      {"run", "-d", "2", "--", scratch.file("script", "echo $CUDA_VISIBLE_DEVICES $1\n", 0755), "one"});
  EXPECT_EQ(ended.out, "2 one\n");
  EXPECT_EQ(ended.err, "");
}

TEST(Run, AFirstLineWithoutAnInterpreterIsTheShells) {
  const Scratch scratch;
  const std::string script = scratch.file("script", "#!\necho $CUDA_VISIBLE_DEVICES $1\n", 0755);
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"-d", "2"}, {"-d", "2", "-m", "1GiB"}}) {
    std::vector<std::string> words{"run"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", script, "one"});
    const Ended ended = gpufence(words);
    EXPECT_EQ(ended.out, "2 one\n");
    EXPECT_EQ(ended.err, "");
    EXPECT_EQ(ended.status, 0);
  }
}

TEST(Run, WhatTheCommandLineSetsAgainstItselfIs125) {
  const Ended off = gpufence({"run", "--env", "GPUFENCE=off", "-d", "0", "--", program("plain"), "x"});
  EXPECT_EQ(off.status, 125);
  EXPECT_EQ(
      off.err,
      "gpufence: --env GPUFENCE=off: turns off the fence that --devices 0 needs; leave one of the two out\n");
  const Ended mask =
      gpufence({"run", "--env", "CUDA_VISIBLE_DEVICES=GPU-b3", "-d", "0", "--", program("plain")});
  EXPECT_EQ(
      mask.err,
      "gpufence: --devices 0: host GPU 0 is outside CUDA_VISIBLE_DEVICES=GPU-b3, set by --env; choose among "
      "host GPUs 3, or leave it with --ignore-mask\n");
}

TEST(Run, CapsByPositionAreSaidWithTheirGpus) {
  EXPECT_EQ(get({"-m", "0=1GiB"}, "GPUFENCE_POSITIONS"),
            "GPU-b2000000-0000-0000-0000-000000000000,GPU-b3000000-0000-0000-0000-000000000000,"
            "GPU-a1000000-0000-0000-0000-000000000000,GPU-a0000000-0000-0000-0000-000000000000");
  EXPECT_EQ(get({"-d", "2,0", "-m", "0=1GiB"}, "GPUFENCE_POSITIONS", {"GPUFENCE_POSITIONS=x"}), "(unset)");
}

TEST(Run, AStaticProgramIsRefusedUnderAViewOrCap) {
  for (const char* kind : {"static", "static_pie"}) {
    const std::string path = program(kind);
    const Ended bare = gpufence({"run", "--", path, "hello"});
    EXPECT_EQ(bare.status, 0);
    EXPECT_EQ(bare.out, "hello\n");
    EXPECT_EQ(bare.err, "gpufence: " + path +
                            ": runs unfenced: it is statically linked, so nothing can be preloaded into it; "
                            "link it dynamically\n");
    EXPECT_EQ(gpufence({"run", "-q", "--", path, "hello"}).err, "");
    for (const bool dry : {false, true}) {
      std::vector<std::string> words{"run", "-m", "8GiB"};
      if (dry) words.push_back("--dry-run");
      words.insert(words.end(), {"--", path, "hello"});
      const Ended capped = gpufence(words);
      EXPECT_EQ(capped.status, 126);
      EXPECT_EQ(capped.out, "");
      EXPECT_EQ(capped.err, "gpufence: " + path +
                                ": can't be fenced, which --gpu-mem needs: it is statically linked, so "
                                "nothing can be preloaded into it; link it dynamically\n");
    }
    EXPECT_EQ(gpufence({"run", "-d", "none", "--", path}).status, 126);
    EXPECT_EQ(gpufence({"run", "--", path}, {"GPUFENCE_GPU_MEM=8GiB"}).status, 126);
  }
}

TEST(Run, ALauncherThatLeavesTheFenceIsRefusedUnderAViewOrCap) {
  const Scratch scratch;
  const std::string docker = scratch.file("docker", "#!/bin/sh\necho docker $*\n", 0755);
  const Ended viewed = gpufence({"run", "-d", "0", "--", docker, "run", "x"});
  EXPECT_EQ(viewed.status, 126);
  EXPECT_EQ(viewed.err, "gpufence: " + docker +
                            ": can't be fenced, which --devices needs: it starts its program elsewhere, "
                            "where the fence doesn't reach; "
                            "start it inside: docker run --gpus all IMAGE gpufence run OPTIONS -- PROGRAM\n");
  const Ended bare = gpufence({"run", "--", docker, "ps"});
  EXPECT_EQ(bare.out, "docker ps\n");
}

TEST(Run, ASetuidProgramIsRefusedUnderACapForAnUnprivilegedUser) {
  const char* setpriv = "/usr/bin/setpriv";
  if (::geteuid() != 0 || ::access(setpriv, X_OK) != 0) GTEST_SKIP() << "needs root and setpriv";
  const Scratch scratch;
  ::chmod(scratch.path().c_str(), 0755);
  std::ifstream from(program("plain"), std::ios::binary);
  const std::string path =
      scratch.file("setuid", std::string(std::istreambuf_iterator<char>(from), {}), 04755);
  const std::vector<std::string> environment{"PATH=/usr/bin:/bin", "LD_LIBRARY_PATH=" + in_tree("standin"),
                                             "ASAN_OPTIONS=detect_leaks=0"};
  const std::vector<std::string> unprivileged{setpriv,          "--reuid=65534",         "--regid=65534",
                                              "--clear-groups", in_tree("bin/gpufence"), "run"};
  const auto start = [&](std::vector<std::string> options) {
    std::vector<std::string> words = unprivileged;
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", path, "hello"});
    return testing::spawn(words, environment);
  };
  const Ended bare = start({});
  if (bare.out != "hello\n") GTEST_SKIP() << "the tree can't be reached by another user: " << bare.err;
  EXPECT_EQ(bare.err, "gpufence: " + path +
                          ": runs unfenced: it is setuid, so the loader drops LD_PRELOAD; start the program "
                          "that uses the GPU in another way\n");
  const Ended capped = start({"-m", "8GiB"});
  EXPECT_EQ(capped.status, 126);
  EXPECT_EQ(capped.err, "gpufence: " + path +
                            ": can't be fenced, which --gpu-mem needs: it is setuid, so the loader drops "
                            "LD_PRELOAD; start the program that uses the GPU in another way\n");
  // For root it is a program like any other.
  EXPECT_EQ(gpufence({"run", "-m", "8GiB", "--", path, "hello"}).out, "hello\n");
}

TEST(Run, ASanitizersRuntimeIsPreloadedFirst) {
  const Ended ended = gpufence({"run", "--", program("sanitized"), "--get=LD_PRELOAD"});
  // By its soname: ld.so finds it by the program's own RUNPATH, and would complain on stderr if it didn't.
  EXPECT_EQ(ended.out, "libasan.so.99:" + kGate + '\n');
  EXPECT_EQ(ended.err, "");
}

TEST(Run, WithoutADriverOnlyWhatNeedsAGpuIsRefused) {
  const std::vector<std::string> extra{"STANDIN_NVML=no-driver"};
  const Ended refused = gpufence({"run", "-d", "0", "--", program("plain")}, extra);
  EXPECT_EQ(refused.status, 125);
  EXPECT_EQ(refused.err,
            "gpufence: --devices 0: NVIDIA's driver doesn't answer (NVML: Driver Not Loaded); look at "
            "nvidia-smi and the kernel's log\n");
  EXPECT_EQ(get({"-d", "none"}, "GPUFENCE_VIEW", extra), "");
  EXPECT_EQ(get({"-m", "8GiB"}, "GPUFENCE_GPU_MEM", extra), "8GiB");
  EXPECT_EQ(get({}, "GPUFENCE_GPUS", extra), "(unset)");
}

TEST(Run, AnswersOfNvmlThatCannotBeAreOneLine) {
  struct Fault {
    const char* name;
    const char* line;
  };
  const Fault faults[] = {
      {"count-huge",
       "gpufence: --devices 0: NVML tells of 4000000000 GPUs, which can't be; look at nvidia-smi -L\n"},
      {"count-fails",
       "gpufence: --devices 0: NVML doesn't tell how many GPUs there are (Unknown Error); look at "
       "nvidia-smi\n"},
      {"uuid-with-comma",
       "gpufence: --devices 0: NVML gives GPU 0 the UUID 'GPU-1,2', which is none; look at nvidia-smi -L\n"},
      {"uuid-twice",
       "gpufence: --devices 0: NVML gives two GPUs the UUID GPU-a0000000-0000-0000-0000-000000000000; look "
       "at nvidia-smi -L\n"},
      {"no-gpu", "gpufence: --devices 0: host GPU 0 doesn't exist; this machine has no GPU\n"},
  };
  for (const Fault& fault : faults) {
    const Ended ended =
        gpufence({"run", "-d", "0", "--", program("plain")}, {std::string("STANDIN_NVML=") + fault.name});
    EXPECT_EQ(ended.status, 125) << fault.name;
    EXPECT_EQ(ended.err, fault.line);
    EXPECT_EQ(
        gpufence({"run", "--", program("plain"), "hello"}, {std::string("STANDIN_NVML=") + fault.name}).out,
        "hello\n");
  }
  EXPECT_EQ(gpufence({"run", "-d", "0", "--", program("plain")}, {"STANDIN_NVML=uuid-unterminated"}).status,
            125);
  EXPECT_EQ(get({"-d", "-1"}, "CUDA_VISIBLE_DEVICES", {"STANDIN_NVML=lost"}), "0,2,3");
}

TEST(Run, ADryRunSaysWhatARunWouldDo) {
  const Ended ended = gpufence({"run", "--dry-run", "-d", "2,0", "-m", "8G", "--name", "it's me", "--",
                                program("plain"), "a b", "--exit", "3"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
  const std::string out = ended.out.substr(0, ended.out.find("  GPUFENCE_RUN="));
  EXPECT_EQ(
      out,
      "GPUs, --devices 2,0, numbering host:\n"
      "  CUDA 0 = host GPU 2 (H100, 0000:81:00.0): cap 8 GiB of 80 GiB (--gpu-mem)\n"
      "  CUDA 1 = host GPU 0 (T4, 0000:01:00.0): cap 8 GiB of 16 GiB (--gpu-mem)\n"
      "environment:\n"
      "  LD_PRELOAD=" +
          kGate +
          "\n"
          "  GPUFENCE_GPUS=" +
          kUuids +
          "\n"
          "  "
          "GPUFENCE_VIEW=GPU-b2000000-0000-0000-0000-000000000000,GPU-a0000000-0000-0000-0000-000000000000\n"
          "  GPUFENCE_NUMBERING=host\n"
          "  CUDA_VISIBLE_DEVICES=2,0\n"
          "  GPUFENCE_MASK=2,0\n"
          "  CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
          "  GPUFENCE_GPU_MEM=8GiB\n"
          "  GPUFENCE_NAME='it'\\''s me'\n");
  EXPECT_EQ(ended.out.substr(ended.out.find("exec: ")), "exec: " + program("plain") + " 'a b' --exit 3\n");
}

TEST(Run, ADryRunSaysWhatWasInherited) {
  const std::string mask =
      gpufence({"run", "--dry-run", "--", program("plain")}, {"CUDA_VISIBLE_DEVICES=0"}).out;
  EXPECT_EQ(mask.substr(0, mask.find("environment")),
            "GPUs, inherited CUDA_VISIBLE_DEVICES=0:\n  CUDA 0 = host GPU 2 (H100, 0000:81:00.0): no cap\n");
  const std::string all = gpufence({"run", "--dry-run", "-m", "0=50%", "--", program("plain")}).out;
  EXPECT_EQ(all.substr(0, all.find("environment")),
            "GPUs, every GPU, CUDA_DEVICE_ORDER=FASTEST_FIRST:\n"
            "  CUDA 0 = host GPU 2 (H100, 0000:81:00.0): cap 40 GiB of 80 GiB (--gpu-mem)\n"
            "  CUDA 1 = host GPU 3 (H100, 0000:c1:00.0): no cap\n"
            "  CUDA 2 = host GPU 1 (A100, 0000:25:00.0): no cap\n"
            "  CUDA 3 = host GPU 0 (T4, 0000:01:00.0): no cap\n");
  const std::string none =
      gpufence({"run", "--dry-run", "-d", "none", "--", program("plain")}, {"STANDIN_NVML=no-driver"}).out;
  EXPECT_EQ(none.substr(0, none.find("environment")), "GPUs: none (--devices none)\n");
}

TEST(Command, AloneItPrintsThreeExamples) {
  const Ended ended = gpufence({});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), 3);
  EXPECT_EQ(ended.err, "");
}

TEST(Command, ItsVersionNamesLibraryAndCudaRange) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-V"}, {"--version"}, {"run", "-V"}}) {
    const Ended ended = gpufence(words);
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(ended.out.substr(0, 9), "gpufence ");
    EXPECT_NE(ended.out.find("\nlibrary " + kGate + "\nCUDA 11.8 to "), std::string::npos) << ended.out;
  }
}

TEST(Command, AnUnknownSubcommandIs2) {
  for (const char* word : {"frobnicate", "shell", "--frobnicate"}) {
    const Ended ended = gpufence({word});
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1);
  }
}

TEST(Command, HelpGoesToStdout) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"-h"},
                                                {"--help-all"},
                                                {"run", "-h"},
                                                {"run", "--help-all"},
                                                {"devices", "-h"},
                                                {"hooks", "-h"},
                                                {"inspect", "-h"},
                                                {"status", "-h"}}) {
    const Ended ended = gpufence(words);
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(ended.err, "");
    EXPECT_NE(ended.out.find("gpufence "), std::string::npos);
  }
}

}  // namespace
}  // namespace gpufence::command
