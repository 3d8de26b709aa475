// What programs under the fence leave behind: records in the directory of the run and in the log, whole lines
// whatever happens to the file, and what is said of it by the command afterwards.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <tuple>

#include <nlohmann/json.hpp>

#include "machines.h"

namespace gpufence::harness {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// One GPU that a program can hold 64 MiB of, and no more: each `ends` makes one GF401.
struct OneGpu : Machine {
  OneGpu() { add_gpu({.name = "Alpha", .memory = 16_GiB, .uuid = kUuid0, .pci = "0000:01:00.0"}); }

  fs::path state() const { return directory() / "state" / "gpufence"; }
  // The directory of the only run that had something to say.
  fs::path run_directory() const {
    std::vector<fs::path> runs;
    for (const auto& entry : fs::directory_iterator(state())) runs.push_back(entry.path());
    EXPECT_EQ(runs.size(), 1u);
    return runs.empty() ? fs::path() : runs.front();
  }
};

const With kCap = {.devices = "0", .gpu_mem = "1GiB"};

With with(std::vector<std::string> options) {
  With capped = kCap;
  capped.options = std::move(options);
  return capped;
}

std::vector<json> records(const fs::path& file) {
  std::vector<json> read;
  const std::string text = read_file(file);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_NE(end, std::string::npos) << "a torn line: " << text.substr(at);
    if (end == std::string::npos) break;
    read.push_back(json::parse(text.substr(at, end - at), nullptr, false));
    EXPECT_FALSE(read.back().is_discarded()) << text.substr(at, end - at);
    at = end + 1;
  }
  return read;
}

TEST(Records, StandInTheRunsDirectoryWithEveryKey) {
  OneGpu m;
  const Result r = m.run({probe("ends"), "exit"}, kCap);
  EXPECT_EQ(r.exit, 0);
  const std::vector<json> read = records(m.run_directory() / "records.jsonl");
  ASSERT_EQ(read.size(), 1u);
  std::vector<std::string> keys;
  for (const auto& [key, value] : read[0].items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"api",   "bytes",   "cap",          "code",  "count",    "device",
                                            "held",  "message", "other_device", "pid",   "python",   "rank",
                                            "rule",  "run_id",  "schema",       "scope", "severity", "site",
                                            "stack", "thread",  "tid",          "time"}));
  EXPECT_EQ(read[0].at("code"), "GF401");
  EXPECT_EQ(read[0].at("severity"), "warning");
  EXPECT_EQ(read[0].at("run_id"), m.run_directory().filename().string());
  EXPECT_EQ(read[0].at("api"), "cuMemAlloc");
  EXPECT_EQ(read[0].at("site").at("object"), "ends");
  EXPECT_EQ(read[0].at("device").at("uuid"), kUuid0);
  EXPECT_EQ(read[0].at("other_device"), nullptr);
  EXPECT_EQ(read[0].at("bytes"), 8589934592);
  EXPECT_EQ(read[0].at("held"), 67108864);
  EXPECT_EQ(read[0].at("cap"), 1073741824);
  EXPECT_EQ(read[0].at("scope"), "run");
  EXPECT_EQ(read[0].at("rule"), "--gpu-mem");
  EXPECT_EQ(read[0].at("stack"), nullptr);
  struct stat status {};
  ASSERT_EQ(stat(m.state().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST(Records, AHealthyProgramLeavesNothingBehind) {
  OneGpu m;
  EXPECT_EQ(m.run({probe("hold"), "0", "64"}, kCap).exit, 0);
  EXPECT_FALSE(fs::exists(m.state()));
}

TEST(Log, TakesTheRecordsOfEveryProcessAndStderrTheFirst) {
  OneGpu m;
  const fs::path log = m.directory() / "log.jsonl";
  const std::string twice = probe("ends") + " exit; " + probe("ends") + " exit";
  const Result r = m.run({"/bin/sh", "-c", twice}, with({"--log", log.string()}));
  const std::vector<json> read = records(log);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_NE(read[0].at("pid"), read[1].at("pid"));
  EXPECT_EQ(read[0].at("run_id"), read[1].at("run_id"));
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
}

TEST(Log, MayBeAFileAProcess) {
  OneGpu m;
  const Result r = m.run({probe("ends"), "exit"}, with({"--log", (m.directory() / "log-%p-%%").string()}));
  ASSERT_FALSE(r.calls.empty());
  EXPECT_EQ(records(m.directory() / ("log-" + std::to_string(r.calls[0].pid) + "-%")).size(), 1u);
}

TEST(Log, HoldsWholeLinesOfFiftyProcessesAtOnce) {
  OneGpu m;
  const fs::path log = m.directory() / "log.jsonl";
  const std::string fifty = "for i in $(seq 50); do " + probe("ends") + " exit >/dev/null & done; wait";
  const Result r = m.run({"/bin/bash", "-c", fifty}, with({"--log", log.string()}));
  EXPECT_EQ(r.exit, 0);
  EXPECT_EQ(records(log).size(), 50u);
  EXPECT_EQ(records(m.run_directory() / "records.jsonl").size(), 50u);
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
}

TEST(Log, ThatWasRotatedIsMadeAgain) {
  OneGpu m;
  const fs::path log = m.directory() / "log.jsonl";
  Process first = m.start({"/bin/sh", "-c", probe("ends") + " exit; read go; " + probe("ends") + " exit"},
                          with({"--log", log.string()}));
  while (!fs::exists(log)) usleep(1000);
  ASSERT_TRUE(first.says("OUT_OF_MEMORY"));
  fs::rename(log, m.directory() / "log.1");
  first.send("go\n");
  EXPECT_EQ(first.wait().exit, 0);
  EXPECT_EQ(records(m.directory() / "log.1").size(), 1u);
  EXPECT_EQ(records(log).size(), 1u);
}

TEST(Log, ThatCanNotBeWrittenIsRefusedBeforeTheProgramStarts) {
  OneGpu m;
  const Result none = m.run({probe("ends"), "exit"}, with({"--log", "/nowhere/log"}));
  EXPECT_EQ(none.exit, 125);
  EXPECT_EQ(none.err,
            "gpufence: --log /nowhere/log: /nowhere is no directory that can be written to; write another "
            "path\n");
  const Result unknown = m.run({probe("ends"), "exit"}, with({"--log", "log-%x"}));
  EXPECT_EQ(unknown.exit, 125);
  EXPECT_EQ(unknown.err,
            "gpufence: --log log-%x: what %x stands for is not known; write %p, %u, %h, %j or %t, and %% for "
            "a percent sign\n");
  ASSERT_EQ(mkfifo((m.directory() / "fifo").c_str(), 0600), 0);
  const Result fifo = m.run({probe("ends"), "exit"}, with({"--log", (m.directory() / "fifo").string()}));
  EXPECT_EQ(fifo.exit, 125);
  EXPECT_TRUE(fifo.complains("is a FIFO that has no reader; start the reader first\n")) << fifo.err;
}

TEST(Log, ThatBecomesUnwritableIsOneLine) {
  OneGpu m;
  With given = kCap;
  given.env["GPUFENCE_LOG"] = "/nowhere/log";
  const Result r = m.run({probe("ends"), "exit"}, given);
  EXPECT_EQ(r.exit, 0);
  EXPECT_TRUE(r.complains("GF502 error: the log /nowhere/log can't be written (No such file or directory)"))
      << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 2) << r.err;
}

TEST(Log, OnAFullDiskLosesLinesAndNothingElse) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a small disk";
  OneGpu m;
  // The disk has room for one page: it holds the first record, or the first few, and tears one.
  const std::string disk = m.directory() / "disk";
  fs::create_directory(disk);
  const std::string script =
      "mount -t tmpfs -o size=4k none " + disk + " || exit 77; export GPUFENCE_LOG=" + disk +
      "/log; for i in 1 2 3 4 5 6 7 8; do " + probe("ends") + " exit || exit 3; done; cp " + disk + "/log " +
      (m.directory() / "kept").string();
  With given = kCap;
  const Result r = m.run({"/usr/bin/unshare", "-m", "/bin/sh", "-c", script}, given);
  if (r.exit == 77 || r.complains("unshare")) GTEST_SKIP() << "no mount namespaces here: " << r.err;
  EXPECT_EQ(r.exit, 0) << r.err;
  EXPECT_TRUE(r.complains("GF502 error: the log " + disk + "/log can't be written (No space left on device)"))
      << r.err;
  size_t whole = 0;
  std::string line;
  std::istringstream kept(read_file(m.directory() / "kept"));
  while (std::getline(kept, line)) whole += json::accept(line) ? 1 : 0;
  EXPECT_GE(whole, 2u);
}

// What `last` says of a process that made one GF401 and held 64 MiB, however it ended.
TEST(Last, TellsOfAProgramHoweverItEnded) {
  for (const auto& [how, exit, signal] :
       {std::tuple{"exit", 0, 0}, std::tuple{"_exit", 0, 0}, std::tuple{"abort", -1, SIGABRT},
        std::tuple{"kill", -1, SIGKILL}, std::tuple{"term", -1, SIGTERM}}) {
    OneGpu m;
    const Result r = m.run({probe("ends"), how}, kCap);
    EXPECT_EQ(r.exit, exit) << how;
    EXPECT_EQ(r.signal, signal) << how;
    const Result told = m.gpufence({"last"});
    EXPECT_EQ(told.exit, 0) << told.err;
    EXPECT_TRUE(told.says("run " + m.run_directory().filename().string() + ", 1 process, ")) << told.out;
    EXPECT_TRUE(
        told.says("] GF401 warning: cuMemAlloc of 8 GiB on CUDA 0 = host GPU 0 (Alpha, 0000:01:00.0) "
                  "refused: this run holds 64 MiB of its 1 GiB (--gpu-mem)"))
        << told.out;
    EXPECT_TRUE(told.says("report: " + probe("ends") + " " + how + ", ")) << told.out;
    EXPECT_EQ(told.says(", ended by a signal, _exit or exec, run "), std::string_view(how) != "exit")
        << told.out;
    EXPECT_TRUE(told.says("\n  findings: GF401 ×1\n")) << told.out;
    const json read = json::parse(m.gpufence({"last", "--json"}).out);
    const json& gpu = read.at("processes").at(0).at("gpus").at(0);
    EXPECT_EQ(gpu.at("peak_bytes"), 67108864) << how;
    EXPECT_EQ(gpu.at("cap_bytes"), 1073741824) << how;
    EXPECT_EQ(gpu.at("allocations"), 1) << how;
    EXPECT_EQ(gpu.at("refusals"), 1) << how;
    EXPECT_EQ(gpu.at("uuid"), kUuid0) << how;
    EXPECT_EQ(read.at("findings").at(0).at("code"), "GF401") << how;
  }
}

TEST(Last, KnowsAProgramThatStillRuns) {
  OneGpu m;
  Process running = m.start({probe("ends"), "wait"}, kCap);
  ASSERT_TRUE(running.says("OUT_OF_MEMORY"));
  const Result told = m.gpufence({"last", std::to_string(running.pid())});
  EXPECT_TRUE(told.says(" wait, still running, run ")) << told.out << told.err;
  EXPECT_EQ(running.wait().exit, 0);
}

TEST(Last, CountsTheProcessesOfOneFinding) {
  OneGpu m;
  const std::string thrice = "for i in 1 2 3; do " + probe("ends") + " exit; done";
  m.run({"/bin/sh", "-c", thrice}, kCap);
  const Result told = m.gpufence({"last"});
  EXPECT_TRUE(told.says(", 3 processes, ")) << told.out;
  EXPECT_TRUE(told.says(" (×3, in 3 processes)\n")) << told.out;
}

TEST(Last, TellsOfAHealthyRunOnlyIfAReportWasAskedFor) {
  OneGpu m;
  m.run({probe("hold"), "0", "64"}, kCap);
  const Result none = m.gpufence({"last"});
  EXPECT_EQ(none.exit, 1);
  EXPECT_EQ(none.err, "gpufence: last: no run has left anything in " + m.state().string() +
                          "; start a program with gpufence run --report\n");
  m.run({probe("hold"), "0", "64"}, with({"--report-file", (m.directory() / "report").string()}));
  const Result told = m.gpufence({"last"});
  EXPECT_EQ(told.exit, 0);
  EXPECT_TRUE(told.says("\n  findings: none\n")) << told.out;
}

TEST(Last, FindsARunByNameAndByProcess) {
  OneGpu m;
  With given = kCap;
  given.env["GPUFENCE_RUN"] = "nightly";
  const Result first = m.run({probe("ends"), "exit"}, given);
  m.run({probe("ends"), "exit"}, kCap);
  const std::string pid = std::to_string(first.calls.at(0).pid);
  EXPECT_TRUE(m.gpufence({"last", "nightly"}).says("run nightly, 1 process, "));
  EXPECT_TRUE(m.gpufence({"last", pid}).says("gpufence[" + pid + "] GF401 warning: "));
  EXPECT_FALSE(m.gpufence({"last"}).says("gpufence[" + pid + "]"));
  const Result none = m.gpufence({"last", "monthly"});
  EXPECT_EQ(none.exit, 1);
  EXPECT_EQ(none.err, "gpufence: monthly: no such run has left anything in " + m.state().string() +
                          "; see the names there, or leave it out for the last one\n");
  EXPECT_EQ(m.gpufence({"last", "a", "b"}).exit, 2);
}

TEST(FailOn, IsExit99IfSuchAFindingWasMadeAndTheProgramSucceeded) {
  OneGpu m;
  const Result warned = m.run({probe("ends"), "exit"}, with({"--fail-on", "warning"}));
  EXPECT_EQ(warned.exit, 99);
  EXPECT_EQ(warned.out, "CUDA_ERROR_OUT_OF_MEMORY\n");
  EXPECT_TRUE(
      warned.complains("gpufence: --fail-on warning: a process of the run made GF401; see gpufence last " +
                       m.run_directory().filename().string() + "\n"))
      << warned.err;
  EXPECT_EQ(m.run({probe("ends"), "exit"}, with({"--fail-on", "GF401"})).exit, 99);
  EXPECT_EQ(m.run({probe("ends"), "_exit"}, with({"--fail-on", "info"})).exit, 99);
  EXPECT_EQ(m.run({probe("ends"), "exit"}, with({"--fail-on", "error"})).exit, 0);
  // Wherever the process itself would keep what it finds.
  EXPECT_EQ(m.run({"/usr/bin/env", "HOME=/nowhere", "XDG_STATE_HOME=/nowhere", "GPUFENCE_RUN=", probe("ends"),
                   "exit"},
                  with({"--fail-on", "warning"}))
                .exit,
            99);
  const Result needs_a_report = m.run({probe("ends"), "exit"}, with({"--fail-on", "GF208"}));
  EXPECT_EQ(needs_a_report.exit, 125);
  EXPECT_TRUE(needs_a_report.complains(
      "gpufence: --fail-on GF208: it is made with a report alone; add --report or --report-file FILE\n"));
  EXPECT_EQ(m.run({probe("ends"), "exit"}, with({"--fail-on", "GF203"})).exit, 0);
  EXPECT_EQ(m.run({probe("ends"), "exit"}, with({"--fail-on", "GF401", "--ignore", "GF401"})).exit, 0);
  EXPECT_EQ(m.run({"/bin/sh", "-c", probe("ends") + " exit; true"}, with({"--fail-on", "warning"})).exit, 99);
}

TEST(FailOn, LeavesTheProgramsOwnEndAsItWas) {
  OneGpu m;
  EXPECT_EQ(m.run({probe("ends"), "exit", "7"}, with({"--fail-on", "warning"})).exit, 7);
  EXPECT_EQ(m.run({probe("ends"), "kill"}, with({"--fail-on", "warning"})).signal, SIGKILL);
  EXPECT_EQ(m.run({probe("ends"), "term"}, with({"--fail-on", "warning"})).signal, SIGTERM);
  EXPECT_EQ(m.run({probe("ends"), "abort"}, with({"--fail-on", "warning"})).signal, SIGABRT);
  EXPECT_EQ(m.run({"./nowhere"}, with({"--fail-on", "warning"})).exit, 127);
}

TEST(FailOn, LeavesNothingBehindOfAHealthyProgram) {
  OneGpu m;
  EXPECT_EQ(m.run({probe("hold"), "0", "64"}, with({"--fail-on", "info"})).exit, 0);
  EXPECT_FALSE(fs::exists(m.state()));
}

TEST(FailOn, NeedsAPlaceForFindings) {
  OneGpu m;
  With given = with({"--fail-on", "warning"});
  given.env["XDG_STATE_HOME"] = "/proc/nowhere";
  const Result r = m.run({probe("ends"), "exit"}, given);
  EXPECT_EQ(r.exit, 125);
  EXPECT_TRUE(r.err.starts_with("gpufence: --fail-on warning: /proc/nowhere/gpufence/")) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
}

TEST(FailOn, PassesOnWhatIsSentToTheParentAlone) {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGUSR1}) {
    OneGpu m;
    Process running = m.start({probe("ends"), "wait"}, with({"--fail-on", "GF203"}));
    ASSERT_TRUE(running.says("OUT_OF_MEMORY"));
    running.signal(signal);
    EXPECT_FALSE(running.says("never said"));  // until it has ended: wait() closes its standard input
    EXPECT_EQ(running.wait().signal, signal);
  }
}

// What a shell and a terminal do: signals to the process group, of a job that has one of its own.
TEST(FailOn, EndsWithAnInterruptOfItsGroup) {
  OneGpu m;
  const std::string job = "mkfifo idle; set -m; " + gpufence_command() + " run --fail-on GF203 --sim " +
                          m.toml().string() + " -- " + probe("ends") +
                          " wait <>idle & echo job $!; read go; kill -INT -- -$!; wait $!; echo ended $?";
  Process shell = m.start({"/bin/bash", "-c", job}, {});
  ASSERT_TRUE(shell.says("SUCCESS"));
  shell.send("go\n");
  EXPECT_TRUE(shell.says("ended 130\n"));
  EXPECT_EQ(shell.wait().exit, 0);
}

TEST(FailOn, StopsAndGoesOnWithTheProgram) {
  OneGpu m;
  // In a group of which nobody's parent is outside of it SIGTSTP does nothing, and tests may be started in
  // one.
  With job = with({"--fail-on", "GF203"});
  job.own_group = true;
  Process running = m.start({probe("ends"), "wait"}, job);
  ASSERT_TRUE(running.says("OUT_OF_MEMORY"));
  const auto state = [&] {
    const std::string stat = read_file("/proc/" + std::to_string(running.pid()) + "/stat");
    return stat.substr(stat.rfind(')') + 2, 1);
  };
  running.signal(SIGTSTP);  // passed on; the program stops, and its parent with it
  for (int i = 0; i < 10000 && state() != "T"; ++i) usleep(1000);
  EXPECT_EQ(state(), "T");
  running.signal(SIGCONT);
  EXPECT_TRUE(running.says("went on\n"));
  EXPECT_EQ(running.wait().exit, 0);
}

TEST(FailOn, TakesTheProgramAlongWhenItIsKilled) {
  OneGpu m;
  Process running = m.start({probe("ends"), "wait"}, with({"--fail-on", "GF203"}));
  ASSERT_TRUE(running.says("OUT_OF_MEMORY"));
  running.signal(SIGKILL);
  const Result r = running.wait();
  EXPECT_EQ(r.signal, SIGKILL);
  const fs::path program = "/proc/" + std::to_string(r.calls.at(0).pid) + "/exe";
  std::error_code gone;
  for (int i = 0; i < 10000 && !fs::read_symlink(program, gone).empty(); ++i) usleep(1000);
  EXPECT_TRUE(fs::read_symlink(program, gone).empty());
}

TEST(Journal, WithoutADirectoryToWriteToStillSpeaks) {
  OneGpu m;
  With given = kCap;
  given.env["XDG_STATE_HOME"] = "/proc/nowhere";
  const Result r = m.run({probe("ends"), "exit"}, given);
  EXPECT_EQ(r.exit, 0);
  EXPECT_TRUE(r.complains("] GF401 warning: ")) << r.err;
}

TEST(Journal, SpeaksJsonAndColorWhereAsked) {
  OneGpu m;
  const Result as_json = m.run({probe("ends"), "exit"}, with({"--log-format", "json"}));
  EXPECT_EQ(json::parse(as_json.err).at("code"), "GF401");
  const Result colored = m.run({probe("ends"), "exit"}, with({"--color", "always"}));
  EXPECT_TRUE(colored.complains("] GF401 \x1b[33mwarning\x1b[0m: ")) << colored.err;
  const Result plain = m.run({probe("ends"), "exit"}, kCap);
  EXPECT_TRUE(plain.complains("] GF401 warning: ")) << plain.err;
}

TEST(Journal, IgnoresWhatItIsToldTo) {
  OneGpu m;
  const Result r = m.run({probe("ends"), "exit"}, with({"--ignore", "GF104,GF401"}));
  EXPECT_EQ(r.err, "");
  EXPECT_FALSE(fs::exists(m.state()));
}

}  // namespace
}  // namespace gpufence::harness
