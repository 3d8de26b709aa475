// `gpufence inspect`, of programs as people build them and of processes that run.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "machines.h"

namespace gpufence::harness {
namespace {

namespace fs = std::filesystem;

// From the row `from` on, to the end of the row `to`.
std::string rows(const std::string& out, const std::string& from, const std::string& to) {
  const std::size_t begin = out.find(from),
                    last = out.find('\n' + to, begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos) return out;
  return out.substr(begin, last == std::string::npos ? last : out.find('\n', last + 1) + 1 - begin);
}

std::string inspect(Machine& m, const std::string& program, const With& with = {}) {
  const Result r = m.gpufence({"inspect", program}, with);
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
  return r.out;
}

// How large the code is that nvcc made hangs on its release and on where it is installed: the device linker's
// command line stands in the code. That the size is said, and right, is tested by SaysHowLargeTheCodeIs.
std::string sizes_left_out(const std::string& out) {
  return std::regex_replace(out, std::regex("[1-9][0-9.]* (bytes|KiB)"), "SIZE");
}

constexpr const char* kDynamic =
    "kind           64-bit x86-64, dynamic, started by /lib64/ld-linux-x86-64.so.2\n";
constexpr const char* kYes = "simulated      yes: as far as can be told without running it\n";

TEST(Inspect, AProgramWithTheSharedRuntime) {
  Machine m;
  const std::string sim = fs::path(simulator("x")).parent_path();
  EXPECT_EQ(sizes_left_out(inspect(m, probe("vectors_shared"), {.env = {{"LD_LIBRARY_PATH", sim}}})),
            "program        " + probe("vectors_shared") + '\n' + kDynamic +
                "reaches CUDA   shared runtime: libcudart.so.13 → " + sim +
                "/libcudart.so.13 by LD_LIBRARY_PATH\n"
                "GPU code       2 cubin sm_75, SIZE\n"
                "               1 PTX compute_75, SIZE (zstd, unpacked SIZE)\n"
                "can be fenced  yes: driver calls and the shared runtime\n" +
                kYes);
}

TEST(Inspect, AProgramWithAStaticRuntimeOfOursAndOfNvidias) {
  Machine m;
  const std::string held =
      "can be fenced  yes: driver calls; those of its static runtime with --diagnose all and CUPTI\n";
  const std::string ours = inspect(m, probe("vectors_static"));
  EXPECT_EQ(rows(ours, "reaches", "GPU").substr(0, 51),
            "reaches CUDA   static runtime: gpufence's stand-in\n");
  EXPECT_EQ(rows(ours, "can be", "simulated"), held + kYes);
  const std::string theirs = inspect(m, probe("vectors_genuine"));
  EXPECT_EQ(theirs.find("reaches CUDA   static runtime: NVIDIA's\n"), theirs.find("reaches")) << theirs;
  EXPECT_EQ(
      rows(theirs, "can be", "simulated"),
      held +
          "simulated      no: it has NVIDIA's own runtime inside, which refuses a simulated driver; link it "
          "with nvcc -cudart shared, or with -L" +
          fs::path(simulator("x")).parent_path().string() + '\n');
}

TEST(Inspect, SeesTheStaticRuntimeOfAStrippedProgramToo) {
  if (std::system("strip --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no strip";
  Machine m;
  for (const auto& [name, line] : {std::pair{"vectors_static", "static runtime: gpufence's stand-in\n"},
                                   std::pair{"vectors_genuine", "static runtime: NVIDIA's\n"}}) {
    const std::string stripped = m.directory() / name;
    fs::copy_file(probe(name), stripped);
    ASSERT_EQ(std::system(("strip " + stripped).c_str()), 0);
    EXPECT_NE(inspect(m, stripped).find(std::string("reaches CUDA   ") + line), std::string::npos);
  }
}

TEST(Inspect, AProgramWithTheDriverApi) {
  Machine m;
  const std::string sim = fs::path(simulator("x")).parent_path();
  EXPECT_EQ(inspect(m, probe("vectors_driver"), {.env = {{"LD_LIBRARY_PATH", sim}}}),
            "program        " + probe("vectors_driver") + '\n' + kDynamic +
                "reaches CUDA   driver, linked: libcuda.so.1 → " + sim +
                "/libcuda.so.1 by LD_LIBRARY_PATH\n"
                "GPU code       none embedded\n"
                "can be fenced  yes: driver calls, and a runtime that is shared\n" +
                kYes);
  if (fs::exists("/usr/lib/x86_64-linux-gnu/libcuda.so.1")) return;
  EXPECT_NE(
      inspect(m, probe("vectors_driver")).find("missing        libcuda.so.1, which vectors_driver needs\n"),
      std::string::npos);
}

TEST(Inspect, MachineCodeAloneCanNotBeSimulated) {
  Machine m;
  const std::string out = inspect(m, probe("kernel_cubin"));
  EXPECT_EQ(rows(out, "simulated", "-"),
            "simulated      no: it has machine code alone and no PTX; compile it with -gencode "
            "arch=compute_80,code=compute_80\n");
}

// The archive's own calls are inside the program, without names.
TEST(Inspect, NamesEachKernelAndCallThatTheSimulatorLacks) {
  Machine m;
  const std::string kernel =
      "simulated      yes: but for what follows\n"
      "               kernel multiply(__half const*, __half const*, float*): unsupported instruction "
      "wmma.load.a.sync.aligned.row.m16n16k16.global.f16, line N of the PTX; tensor cores are not simulated: "
      "compile the path for GPUs without them\n";
  const auto told = [&](const char* name) {
    const std::string out = inspect(m, probe(name));
    return std::regex_replace(out.substr(out.find("simulated ")), std::regex("line [0-9]+"), "line N");
  };
  EXPECT_EQ(told("beyond_static"), kernel);
  EXPECT_EQ(told("beyond_shared"),
            kernel +
                "               the simulator has no cudaImportExternalMemory; share memory by "
                "cudaIpcGetMemHandle, events by cudaIpcGetEventHandle\n");

  const auto json = nlohmann::json::parse(m.gpufence({"inspect", "--json", probe("beyond_shared")}).out);
  const auto& obstacles = json.at("simulation").at("obstacles");
  ASSERT_EQ(obstacles.size(), 2u);
  EXPECT_EQ(obstacles[0].at("what"), "kernel");
  EXPECT_EQ(obstacles[0].at("name"), "multiply(__half const*, __half const*, float*)");
  EXPECT_EQ(obstacles[0].at("part"), "the program");
  EXPECT_EQ(obstacles[1].at("what"), "call");
  EXPECT_EQ(obstacles[1].at("name"), "cudaImportExternalMemory");
  EXPECT_EQ(json.at("simulation").at("possible"), true);
}

// PTX runs on the GPUs of its own capability and above.
TEST(Inspect, AsksWhetherTheMachinesGpusCanRunTheCode) {
  Machine m;
  const auto on = [&](const char* machine) {
    const std::string out = inspect(m, probe("kernel_several"), {.env = {{"GPUFENCE_SIM", machine}}});
    return out.substr(out.find("simulated "));
  };
  EXPECT_EQ(on("1xt4"), kYes);
  EXPECT_EQ(on("1xh100"), kYes);
  const std::string old = (m.directory() / "old.toml").string();
  std::ofstream(old) << "[[gpu]]\ncompute_capability = \"6.1\"\n";
  EXPECT_EQ(
      on(old.c_str()),
      "simulated      yes: but for what follows\n"
      "               kernel module has no PTX for compute capability 6.1: only compute_75, compute_90, and "
      "code for sm_80; compile with -gencode arch=compute_61,code=compute_61\n");
  // Another GPU of the machine can.
  std::ofstream(old, std::ios::app) << "[[gpu]]\nmodel = \"t4\"\n";
  EXPECT_EQ(on(old.c_str()), kYes);
}

TEST(Inspect, EveryWayOfPackingGpuCode) {
  Machine m;
  const auto packing = [&](const char* name) {
    const Result r = m.gpufence({"inspect", "--json", probe(name)});
    std::string found;
    const auto out = nlohmann::json::parse(r.out);
    for (const auto& code : out.at("parts").at(0).at("gpu_code"))
      found += code.at("kind").get<std::string>() + ' ' + std::to_string(code.at("sm").get<int>()) + ' ' +
               code.at("packing").get<std::string>() + '\n';
    return found;
  };
  EXPECT_EQ(packing("kernel_none"), "cubin 75 plain\ncubin 75 plain\nptx 75 plain\n");
  EXPECT_EQ(packing("kernel_speed"), "cubin 75 plain\ncubin 75 plain\nptx 75 lz4\n");
  EXPECT_EQ(packing("kernel_size"), "cubin 75 zstd\ncubin 75 zstd\nptx 75 zstd\n");
}

// The three programs are one source: what is packed in two of them stands in plain text in the third.
TEST(Inspect, SaysHowLargeTheCodeIs) {
  Machine m;
  const auto ptx = [&](const char* name) {
    const auto out = nlohmann::json::parse(m.gpufence({"inspect", "--json", probe(name)}).out);
    return out.at("parts").at(0).at("gpu_code").back();
  };
  std::ifstream in(probe("kernel_none"), std::ios::binary);
  const std::string program{std::istreambuf_iterator<char>(in), {}};
  const std::size_t version = program.find("\n.version ");
  ASSERT_NE(version, std::string::npos);
  const std::size_t text = program.find('\0', version) - program.rfind('\0', version);  // its own 0 counted
  const std::size_t padded = (text + 7) / 8 * 8;
  EXPECT_EQ(ptx("kernel_none").at("bytes"), padded);
  EXPECT_EQ(ptx("kernel_none").at("unpacked"), padded);
  for (const char* name : {"kernel_speed", "kernel_size"}) {
    EXPECT_EQ(ptx(name).at("unpacked"), text) << name;
    EXPECT_LT(ptx(name).at("bytes"), text) << name;
  }
}

TEST(Inspect, APythonScript) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "no python3";
  Machine m;
  const std::string script = m.directory() / "train.py";
  fs::copy_file(probe("ctypes_probe.py"), script);
  const std::string out = m.gpufence({"inspect", "/usr/bin/python3"}).out;
  EXPECT_NE(
      out.find(
          "reaches CUDA   not by itself: Python's packages load CUDA later, which the fence meets then\n"),
      std::string::npos)
      << out;
}

TEST(Inspect, AProcessThatHoldsMemory) {
  FourGpus m;
  Process process = m.start({probe("hold"), "0", "64"}, {.devices = "2,0", .gpu_mem = "1GiB"});
  ASSERT_TRUE(process.says("held"));
  const Result r =
      m.gpufence({"inspect", std::to_string(process.pid())}, {.env = {{"GPUFENCE_SIM", m.toml()}}});
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
  EXPECT_EQ(rows(r.out, "process", "fenced"),
            "process        " + std::to_string(process.pid()) + ' ' + fs::canonical(probe("hold")).string() +
                "\n"
                "driver         " +
                fs::canonical(simulator("libcuda.so.1")).string() +
                "\n"
                "runtime        none is mapped\n"
                "NVML           none is mapped\n"
                "fenced         yes: its CUDA calls come through the fence\n");
  EXPECT_EQ(rows(r.out, "view", "mask"),
            "view           as the run asked, numbering host\n"
            "               CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0)\n"
            "               CUDA 1 = host GPU 0 (Alpha, 0000:01:00.0)\n"
            "mask           CUDA_VISIBLE_DEVICES=2,0, CUDA_DEVICE_ORDER=PCI_BUS_ID\n");
  EXPECT_NE(r.out.find("cap            1 GiB on each GPU (--gpu-mem)\n"), std::string::npos) << r.out;
}

TEST(Inspect, AProcessThatTheFenceDoesNotReach) {
  FourGpus m;
  Process unfenced = m.start_unfenced({probe("hold"), "0", "64"});
  ASSERT_TRUE(unfenced.says("held"));
  const Result outside = m.gpufence({"inspect", std::to_string(unfenced.pid())});
  EXPECT_EQ(rows(outside.out, "fenced", "view"),
            "fenced         no: libgpufence.so is not loaded; start it by gpufence run -- PROGRAM\n"
            "view           none: every GPU, as without gpufence\n");
}

#ifndef __SANITIZE_ADDRESS__  // whose runtime can't be loaded twice
TEST(Inspect, ADriverInANamespaceOfItsOwn) {
  FourGpus m;
  Process hidden = m.start({probe("odd"), "hides"}, {.devices = "1"});
  if (!hidden.says("ready")) GTEST_SKIP() << "no second namespace is to be had here";
  const Result none = m.gpufence({"status", std::to_string(hidden.pid())});
  EXPECT_EQ(
      none.out.substr(0, none.out.find('\n')),
      "fenced         not reached: libcuda is mapped, and no CUDA call has come through the fence; none was "
      "made yet, or libcuda was opened by dlmopen or RTLD_DEEPBIND, where the fence isn't");
  EXPECT_EQ(none.exit, 1);

  Process both = m.start({probe("odd"), "hides", "one"}, {.devices = "1"});
  ASSERT_TRUE(both.says("ready"));
  const std::string driver = fs::canonical(simulator("libcuda.so.1"));
  const Result one = m.gpufence({"inspect", std::to_string(both.pid())});
  EXPECT_NE(one.out.find("driver         " + driver + ", 2 copies\n"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("fenced         yes: its CUDA calls come through the fence\n"), std::string::npos)
      << one.out;
  EXPECT_NE(one.out.find(
                "note           " + driver +
                ": 2 copies of the driver are mapped, and one is fenced; don't open the driver by dlmopen, "
                "or from a second place\n"),
            std::string::npos)
      << one.out;
}
#endif

}  // namespace
}  // namespace gpufence::harness
