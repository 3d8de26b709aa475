// Caps that processes share: of a run and the runs around it, a user, a job, a group, in total; what each
// process of them is told; and what becomes of a cap whose books can't be kept.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "machines.h"

namespace gpufence::harness {
namespace {

namespace fs = std::filesystem;

std::string hold(int ordinal, int mib) {
  return probe("hold") + ' ' + std::to_string(ordinal) + ' ' + std::to_string(mib);
}
// Each of them in a process of its own, one after the other; all end with the standard input.
std::vector<std::string> one_by_one(const std::vector<std::string>& commands) {
  std::string script = "exec 3<&0\n";
  int number = 0;
  for (const std::string& command : commands) {
    const std::string out = "\"$DONE/" + std::to_string(number++) + '"';
    script += command + " <&3 >" + out + " &\nwhile ! grep -q : " + out +
              " 2>/dev/null; do sleep 0.01; done\ncat " + out + "\n";
  }
  return {"/bin/sh", "-c", script + "echo all\nwait"};
}

class Capped : public testing::Test {
 protected:
  Capped() { fs::create_directories(machine.directory() / "done"); }
  With with(With asked) {
    asked.env["DONE"] = machine.directory() / "done";
    asked.devices = "0-3";  // CUDA 0 is Alpha, of 4 GiB
    return asked;
  }
  // What each said, and what the run said on stderr.
  Result together(const std::vector<std::string>& commands, const With& asked) {
    Process run = machine.start(one_by_one(commands), with(asked));
    EXPECT_TRUE(run.says("all\n"));
    return run.wait();
  }

  FourGpus machine;
};

TEST_F(Capped, ARunIsCappedAsAWhole) {
  const Result r = together({hold(0, 600), hold(0, 425), hold(0, 424), hold(1, 1024)}, {.gpu_mem = "1GiB"});
  EXPECT_EQ(r.out,
            "held: free 424 of 1024 MiB\n"
            "CUDA_ERROR_OUT_OF_MEMORY: free 424 of 1024 MiB\n"
            "held: free 0 of 1024 MiB\n"
            "held: free 0 of 1024 MiB\nall\n");
}

TEST_F(Capped, ARefusalNamesTheScopeAndWhoHoldsTheMost) {
  const Result r = together({hold(0, 600), hold(0, 500)}, {.gpu_mem = "1GiB"});
  const std::size_t from = r.err.find(
      "GF401 warning: cuMemAlloc of 500 MiB on CUDA 0 = host GPU 0 (Alpha, 0000:01:00.0) "
      "refused: this run holds 600 MiB of its 1 GiB (--gpu-mem); pid ");
  ASSERT_NE(from, std::string::npos) << r.err;
  EXPECT_NE(r.err.find(" \"hold 0 600\" holds 600 MiB; freeing 76 MiB is enough; the card has ", from),
            std::string::npos)
      << r.err;
}

TEST_F(Capped, ADeadProcesssBytesComeBackBeforeARefusal) {
  const std::string killed = "sh -c 'exec 4<&0; " + hold(0, 900) +
                             " <&4 >$DONE/x & while ! grep -q held $DONE/x; do sleep 0.01; done; "
                             "kill -9 $!; wait; echo gone:' 2>/dev/null";
  const Result r = together({killed, hold(0, 1024)}, {.gpu_mem = "1GiB"});
  EXPECT_TRUE(r.says("held: free 0 of 1024 MiB\nall\n")) << r.out << r.err;
}

TEST_F(Capped, ARunInARunBelongsToBoth) {
  const std::string inner = gpufence_command() + " run -m 600MiB -- ";
  const Result r = together({hold(0, 500), inner + hold(0, 524), inner + hold(0, 1), inner + hold(0, 601)},
                            {.gpu_mem = "1GiB"});
  EXPECT_EQ(r.out,
            "held: free 524 of 1024 MiB\n"
            "held: free 0 of 600 MiB\n"                      // 76 of its own, 0 of the outer run's
            "CUDA_ERROR_OUT_OF_MEMORY: free 0 of 600 MiB\n"  // nothing of the outer run's is left
            "CUDA_ERROR_OUT_OF_MEMORY: free 0 of 600 MiB\nall\n");
  EXPECT_TRUE(
      r.complains("refused: the run around this one holds 1 GiB of its 1 GiB (--gpu-mem of the outer run)"))
      << r.err;
}

TEST_F(Capped, RunsAreApart) {
  Process first = machine.start({probe("hold"), "0", "1024"}, with({.gpu_mem = "1GiB"}));
  ASSERT_TRUE(first.says("held: free 0 of 1024 MiB\n"));
  EXPECT_TRUE(machine.run({probe("hold"), "0", "1024"}, with({.gpu_mem = "1GiB"}))
                  .says("held: free 0 of 1024 MiB\n"));
}

TEST_F(Capped, AUserIsCappedOverAllHisRuns) {
  const With user{.env = {{"GPUFENCE_GPU_MEM_PER_USER", "1GiB"}}};
  Process first = machine.start({probe("hold"), "0", "700"}, with(user));
  ASSERT_TRUE(first.says("held: free 324 of 1024 MiB\n"));
  Process refused = machine.start({probe("hold"), "0", "325"}, with(user));
  ASSERT_TRUE(refused.says("CUDA_ERROR_OUT_OF_MEMORY: free 324 of 1024 MiB\n"));
  const std::string said = refused.wait().err;
  EXPECT_NE(said.find("refused: user " + std::to_string(::geteuid()) +
                      " holds 700 MiB of its 1 GiB (GPUFENCE_GPU_MEM_PER_USER); pid "),
            std::string::npos)
      << said;
  first.signal(SIGKILL);
  first.wait();
  EXPECT_TRUE(machine.run({probe("hold"), "0", "1024"}, with(user)).says("held: free 0 of 1024 MiB\n"));
}

TEST_F(Capped, AJobAndItsTotal) {
  const With job{.env = {{"GPUFENCE_GPU_MEM_PER_JOB", "1GiB"},
                         {"GPUFENCE_GPU_MEM_TOTAL_PER_JOB", "1280MiB"},
                         {"GPUFENCE_JOB", "4711"}}};
  Process first = machine.start({probe("hold"), "0", "1000"}, with(job));
  ASSERT_TRUE(first.says("held: free 24 of 1024 MiB\n"));
  Process second = machine.start({probe("hold"), "1", "281"}, with(job));
  ASSERT_TRUE(second.says("CUDA_ERROR_OUT_OF_MEMORY: free 280 of 1024 MiB\n"));
  EXPECT_TRUE(second.wait().complains(
      "refused: job 4711 holds 1000 MiB of its 1.3 GiB on all GPUs (GPUFENCE_GPU_MEM_TOTAL_PER_JOB)"));
  EXPECT_TRUE(machine.run({probe("hold"), "1", "280"}, with(job)).says("held: free 0 of 1024 MiB\n"));
  With other = job;
  other.env["GPUFENCE_JOB"] = "4712";
  EXPECT_TRUE(machine.run({probe("hold"), "1", "1024"}, with(other)).says("held: free 0 of 1024 MiB\n"));
}

TEST_F(Capped, AGroupSharesAFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, for two users";
  // Of a group both users can be in: the file is its members'.
  const With one{.env = {{"GPUFENCE_GPU_MEM_PER_GROUP", "root=1GiB"}}};
  Process first = machine.start({probe("hold"), "0", "700"}, with(one));
  ASSERT_TRUE(first.says("held: free 324 of 1024 MiB\n"));
  struct stat status {};
  ASSERT_EQ(::stat((machine.directory() / "ledger/gpufence-group-root").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0660u);
  EXPECT_TRUE(machine.run({probe("hold"), "0", "325"}, with(one))
                  .says("CUDA_ERROR_OUT_OF_MEMORY: free 324 of 1024 MiB\n"));
  const Result unknown =
      machine.run({probe("hold"), "0", "1"}, with({.env = {{"GPUFENCE_GPU_MEM_PER_GROUP", "nobodys=1GiB"}}}));
  EXPECT_TRUE(unknown.complains(
      "GF503 error: CUDA is denied: group nobodys: /etc/group doesn't know it; name another\n"))
      << unknown.err;
}

TEST_F(Capped, SeveralScopesAtOnceAreReservedAllOrNone) {
  const With both{.gpu_mem = "1GiB",
                  .options = {"--gpu-mem-per-process", "800MiB"},
                  .env = {{"GPUFENCE_GPU_MEM_PER_USER", "1200MiB"},
                          {"GPUFENCE_GPU_MEM_PER_JOB", "1100MiB"},
                          {"GPUFENCE_JOB", "1"}}};
  const Result r = together({hold(0, 801), hold(0, 800), hold(0, 225), hold(0, 224)}, both);
  EXPECT_EQ(r.out,
            "CUDA_ERROR_OUT_OF_MEMORY: free 800 of 800 MiB\n"
            "held: free 0 of 800 MiB\n"
            "CUDA_ERROR_OUT_OF_MEMORY: free 224 of 800 MiB\n"
            "held: free 0 of 800 MiB\nall\n");
  // A refusal by one left nothing in the others.
  EXPECT_TRUE(machine.run({probe("hold"), "0", "800"}, with(both)).says("held: free 0 of 800 MiB\n"));
}

TEST_F(Capped, NvmlShowsTheScopesProcessesAlsoToWhoHasNoCuda) {
  const Result r = together({hold(0, 600), probe("asks_nvml") + " list"}, {.gpu_mem = "1GiB"});
  EXPECT_TRUE(r.says("total 1024 used 600 free 424 compute 7/0: other=600 v2 7/0: other=600"))
      << r.out << r.err;
}

// ---- Every way that CUDA has to take device memory ----

struct Way {
  const char* name;
  std::uint64_t step;           // bytes of one allocation
  std::uint64_t at_most_under;  // how far below the cap the first refusal may be. Bytes
};

class Families : public testing::TestWithParam<Way> {};
constexpr std::uint64_t k64MiB = std::uint64_t{64} << 20, kOdd = std::uint64_t{74} << 20;
constexpr std::uint64_t k1MiB = std::uint64_t{1} << 20;
// A pool of its own for each MiB holds 32 for it.
constexpr std::uint64_t kMostOfASegment = std::uint64_t{992} << 20;
// A pool takes whole steps of its own, which count: 74 MiB are 96 in one whose step is 32, and a cap of 1,024
// MiB holds ten.
constexpr std::uint64_t kOddPool = std::uint64_t{284} << 20;
INSTANTIATE_TEST_SUITE_P(
    Caps, Families,
    testing::Values(Way{"alloc", k64MiB, 0}, Way{"alloc", kOdd, kOdd - 1}, Way{"alloc_v1", k64MiB, 0},
                    Way{"pitch", k64MiB, 0}, Way{"pitch", kOdd, kOdd - 1}, Way{"managed", k64MiB, 0},
                    Way{"async", k64MiB, 0}, Way{"async", kOdd, kOddPool}, Way{"async_ptsz", k64MiB, 0},
                    Way{"pool", k64MiB, 0}, Way{"destroyed", k64MiB, 0},
                    Way{"destroyed", k1MiB, kMostOfASegment}, Way{"async", k1MiB, kMostOfASegment},
                    Way{"graph", k1MiB, kMostOfASegment}, Way{"pool", kOdd, kOddPool}, Way{"vmm", k64MiB, 0},
                    Way{"vmm", kOdd, kOdd - 1}, Way{"vmm_mapped", k64MiB, 0},
                    Way{"vmm_mapped", kOdd, kOdd - 1}, Way{"array", k64MiB, 0}, Way{"array", kOdd, kOdd - 1},
                    Way{"array3d", k64MiB, 0}, Way{"array3d", kOdd, kOdd - 1}, Way{"mipmap", k64MiB, 0},
                    Way{"mipmap", kOdd, kOdd - 1}, Way{"graph", k64MiB, 0}, Way{"graph", kOdd, kOdd - 1},
                    Way{"graph_node", k64MiB, 0}, Way{"captured", k64MiB, 0},
                    Way{"captured", kOdd, kOdd - 1}),
    [](const auto& one) { return std::string(one.param.name) + '_' + std::to_string(one.param.step >> 20); });

TEST_P(Families, AreCappedAndGivenBack) {
  Machine m;
  m.add_gpu({.memory = 16_GiB});
  const Way& way = GetParam();
  const Result r = m.run({probe("families"), way.name, std::to_string(way.step)},
                         {.gpu_mem = "1GiB", .options = {"--report-file", m.directory() / "report.json"}});
  std::uint64_t obtained = 0, free = 0;
  char answer[64] = "", name[64] = "";
  ASSERT_EQ(std::sscanf(r.out.c_str(), "%63s %lu %63s free %lu", name, &obtained, answer, &free), 4)
      << r.out << r.err;
  EXPECT_STREQ(answer, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_LE(obtained, 1_GiB);
  EXPECT_GE(obtained + way.at_most_under, 1_GiB);
  EXPECT_EQ(free, 1_GiB);  // nothing is left in the books
  EXPECT_TRUE(r.complains("GF401 warning: ")) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  const auto report = nlohmann::json::parse(std::ifstream(m.directory() / "report.json"));
  EXPECT_FALSE(report.at("findings").contains("GF503")) << report.dump();
  EXPECT_LE(report.at("gpus").at(0).at("peak_bytes"), 1_GiB);
}

// The cap counts what a pool has reserved; what lies in it unused is given back before anything else is
// refused.
TEST_F(Capped, APoolsSpareMemoryIsNoReasonToRefuse) {
  const Result r = machine.run({probe("families"), "keeps", "67108864"}, with({.gpu_mem = "1GiB"}));
  EXPECT_TRUE(r.says("keeps 1073741824 CUDA_ERROR_OUT_OF_MEMORY free 1073741824\n")) << r.out << r.err;
}

// ---- Books that can't be kept ----

TEST_F(Capped, WithoutBooksCudaIsDeniedUnlessAllowed) {
  const With nowhere{.gpu_mem = "1GiB", .env = {{"GPUFENCE_LEDGER_DIR", "/nowhere"}}};
  const Result r = machine.run({probe("hold"), "0", "1"}, with(nowhere));
  EXPECT_TRUE(r.says("cuInit(0): CUDA_ERROR_NO_DEVICE")) << r.out;
  EXPECT_TRUE(r.complains("GF503 error: CUDA is denied: /nowhere/gpufence-")) << r.err;
  EXPECT_TRUE(r.complains(
      ": can't be made (No such file or directory); set GPUFENCE_LEDGER_DIR to a directory that can "
      "be written to\n"))
      << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  With allowed = nowhere;
  allowed.env["GPUFENCE_ON_ERROR"] = "allow";
  const Result alone = machine.run({probe("hold"), "0", "1025"}, with(allowed));
  EXPECT_TRUE(alone.says("CUDA_ERROR_OUT_OF_MEMORY: free 1024 of 1024 MiB\n")) << alone.out;
  EXPECT_TRUE(alone.complains("; each process counts for itself\n")) << alone.err;
}

TEST_F(Capped, AForeignFileIsNamed) {
  const fs::path file =
      machine.directory() / "ledger" / ("gpufence-" + std::to_string(::geteuid()) + "-user-all");
  std::ofstream(file) << std::string(100000, 'x');
  ::chmod(file.c_str(), 0600);
  const Result r = machine.run({probe("hold"), "0", "1"}, {.env = {{"GPUFENCE_GPU_MEM_PER_USER", "1GiB"}}});
  EXPECT_TRUE(r.complains("GF503 error: CUDA is denied: " + file.string() +
                          ": is no ledger of gpufence; remove it\n"))
      << r.err;
}

// What dead runs left is cleared away by later ones.
TEST_F(Capped, BooksOfPastRunsGo) {
  for (int i = 0; i < 3; ++i) machine.run({probe("hold"), "0", "1"}, {.gpu_mem = "1GiB"});
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(machine.directory() / "ledger")) ++files;
  EXPECT_EQ(files, 1u);
}

TEST_F(Capped, CapsThatCannotBeReadAreOneLine) {
  for (const auto& [name, value, why] : std::vector<std::array<const char*, 3>>{
           {"GPUFENCE_GPU_MEM_PER_USER", "8", "GPUFENCE_GPU_MEM_PER_USER=8: "},
           {"GPUFENCE_GPU_MEM_TOTAL", "50%",
            "GPUFENCE_GPU_MEM_TOTAL=50%: a size is meant, 32GiB: it is for all GPUs together"},
           {"GPUFENCE_GPU_MEM_PER_GROUP", "8GiB",
            "GPUFENCE_GPU_MEM_PER_GROUP=8GiB: NAME=SIZE is meant, students=40GiB"}}) {
    const Result r = machine.run({probe("hold"), "0", "1"}, {.env = {{name, value}}});
    EXPECT_TRUE(r.complains(std::string("GF502 error: ") + why)) << r.err;
    EXPECT_TRUE(r.complains("; CUDA is denied\n")) << r.err;
  }
}

}  // namespace
}  // namespace gpufence::harness
