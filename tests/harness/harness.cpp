// Runs programs on a simulated machine. The child's environment is built anew: whatever CUDA_*, GPUFENCE_*,
// LD_* or scheduler variables the tests themselves run under must not reach the program. Output goes to
// files, not pipes: no program can then block on a reader, and a killed one leaves what it said.
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace gpufence::harness {
namespace fs = std::filesystem;
namespace {

// How long a program may take to say what a test waits for. Only a broken one ever takes that long.
constexpr int kPatienceSeconds = 120;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("harness: " + what + ": " + std::strerror(errno));
}

bool belongs_to_the_tests(std::string_view entry) {
  for (std::string_view prefix :
       {"CUDA_", "GPUFENCE_", "LD_", "SLURM_", "OMPI_", "MPI_", "LOCAL_RANK", "XDG_", "NVIDIA_",
        "ASAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS", "NO_COLOR"}) {
    if (entry.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

void open_as(int descriptor, const fs::path& path, int flags) {
  const int opened = open(path.c_str(), flags, 0666);
  // Whatever the umask: another user's program appends to it.
  if (opened < 0 || fchmod(opened, 0666) != 0 || dup2(opened, descriptor) < 0) _exit(121);
  if (opened != descriptor) close(opened);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> made;
  for (const std::string& s : strings) made.push_back(const_cast<char*>(s.c_str()));
  made.push_back(nullptr);
  return made;
}

// The loader's word on the libasan that environment() preloads, for a setuid program that may not have it.
std::string without_sanitizer_notes(std::string text) {
  if (std::string_view(GPUFENCE_LIBASAN).empty()) return text;
  const size_t note = text.find("ERROR: ld.so: object 'libasan.so");
  if (note != std::string::npos) text.erase(note, text.find('\n', note) - note + 1);
  return text;
}

// What the programs of the running test said, for its failure message.
constinit std::vector<std::string> programs;

void remember(const std::string& argv, const Result& result) {
  constexpr size_t kEnough = 2000;
  const auto cut = [](const std::string& text) {
    return text.size() <= kEnough ? text : text.substr(0, kEnough) + "[…]";
  };
  programs.push_back("$ " + argv + "\n" +
                     (result.signal != 0 ? "ended by signal " + std::to_string(result.signal)
                                         : "exit status " + std::to_string(result.exit)) +
                     ", " + std::to_string(result.calls.size()) + " calls reached the driver" +
                     (result.calls.empty() ? "" : ", the last " + result.calls.back().name) + "\nstdout: " +
                     cut(result.out) + "\nstderr: " + cut(result.err));
}

void pause_briefly() {
  const timespec brief{0, 1'000'000};
  nanosleep(&brief, nullptr);
}

}  // namespace

std::string probe(std::string_view name) {
  return std::string(GPUFENCE_PROBE_DIR "/").append(name);
}
std::string gpufence_command() {
  return GPUFENCE_COMMAND;
}
std::string simulator(std::string_view library) {
  return std::string(GPUFENCE_SIM_LIBRARIES "/").append(library);
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const std::vector<std::string>& programs_of_this_test() {
  return programs;
}

void forget_programs() {
  programs.clear();
}

std::ptrdiff_t Result::called(std::string_view name) const {
  return std::count_if(calls.begin(), calls.end(), [&](const Call& call) { return call.name == name; });
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::exchange(other.input_, -1)),
      argv_(std::move(other.argv_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      calls_(std::move(other.calls_)) {}

Process::~Process() {
  if (input_ >= 0) close(input_);
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
}

bool Process::says(std::string_view text) {
  for (const time_t give_up = time(nullptr) + kPatienceSeconds; time(nullptr) < give_up; pause_briefly()) {
    siginfo_t ended{};
    waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT);
    // Looked at after the state: what an ended program wrote is all there.
    if (read_file(out_).find(text) != std::string::npos) return true;
    if (ended.si_pid == pid_) return false;
  }
  return false;
}

void Process::send(std::string_view text) {
  if (write(input_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail("writing to a program");
}

void Process::signal(int number) {
  kill(pid_, number);
}

Result Process::wait() {
  close(std::exchange(input_, -1));
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) fail("waiting for a program");
  pid_ = -1;
  Result result;
  if (WIFEXITED(status)) result.exit = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.out = read_file(out_);
  result.err = without_sanitizer_notes(read_file(err_));
  std::istringstream calls(read_file(calls_));
  for (Call call; calls >> call.pid >> call.tid >> call.name >> call.result;) result.calls.push_back(call);
  remember(argv_, result);
  return result;
}

Machine::Machine() {
  std::string name = fs::temp_directory_path() / "gpufence-test-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) fail("making a directory");
  directory_ = name;
  // Programs of a test may run as another user.
  for (const char* part : {"", "shared", "state", "config", "ledger", "runtime-only"}) {
    fs::create_directories(directory_ / part);
    fs::permissions(directory_ / part, fs::perms::all);
  }
  // What a machine without a driver still has: the runtime that came with the program.
  fs::create_symlink(simulator("libcudart.so.13"), directory_ / "runtime-only" / "libcudart.so.13");
}

Machine::~Machine() {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

void Machine::add_gpu(const GpuSpec& spec) {
  gpus_.push_back(spec);
}

fs::path Machine::toml() {
  const fs::path path = directory_ / "machine.toml";
  std::ofstream file(path);
  file << "version = 1\n";
  if (driver_version_ != 0) file << "driver_version = " << driver_version_ << "\n";
  if (!peers_.empty()) file << "peers = \"" << peers_ << "\"\n";
  for (const GpuSpec& gpu : gpus_) {
    file << "[[gpu]]\n";
    if (!gpu.name.empty()) file << "name = \"" << gpu.name << "\"\n";
    if (gpu.memory != 0) file << "memory = \"" << (gpu.memory >> 20) << "MiB\"\n";
    if (!gpu.uuid.empty()) file << "uuid = \"" << gpu.uuid << "\"\n";
    if (!gpu.pci.empty()) file << "pci = \"" << gpu.pci << "\"\n";
    if (!gpu.compute_capability.empty())
      file << "compute_capability = \"" << gpu.compute_capability << "\"\n";
    if (gpu.context != 0) file << "context = \"" << (gpu.context >> 20) << "MiB\"\n";
    if (gpu.fastest_rank) file << "fastest_rank = " << *gpu.fastest_rank << "\n";
    if (gpu.fail_alloc_at) file << "fail_alloc_at = " << *gpu.fail_alloc_at << "\n";
  }
  return path;
}

std::vector<std::string> Machine::environment(const With& with, const fs::path& calls, bool simulated) {
  std::map<std::string, std::string> set = {
      {"GPUFENCE_SIM_DIR", directory_ / "shared"},    {"GPUFENCE_SIM_CALLS", calls},
      {"GPUFENCE_LEDGER_DIR", directory_ / "ledger"}, {"XDG_STATE_HOME", directory_ / "state"},
      {"XDG_CONFIG_HOME", directory_ / "config"},
  };
  if (!with.driver) {
    set["LD_LIBRARY_PATH"] = directory_ / "runtime-only";
  } else if (simulated) {
    set["GPUFENCE_SIM"] = toml();
    set["LD_LIBRARY_PATH"] = GPUFENCE_SIM_LIBRARIES;
  }
  // Instrumented libraries in plain programs: the sanitizer's runtime has to be there first. Both leak on
  // purpose.
  if (const std::string_view asan = GPUFENCE_LIBASAN; !asan.empty()) {
    set["LD_PRELOAD"] = asan;
    set["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0:detect_odr_violation=0";
  }
  for (const auto& [key, value] : with.env) set[key] = value;
  for (const std::string& key : with.unset) set.erase(key);

  std::vector<std::string> made;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!belongs_to_the_tests(*entry)) made.emplace_back(*entry);
  }
  for (const auto& [key, value] : set) made.push_back(key + "=" + value);
  return made;
}

Process Machine::launch(std::vector<std::string> argv, const With& with, bool simulated) {
  const fs::path base = directory_ / ("run-" + std::to_string(launched_++));
  Process process;
  for (const std::string& word : argv) process.argv_ += (process.argv_.empty() ? "" : " ") + word;
  process.out_ = base.string() + ".out";
  process.err_ = base.string() + ".err";
  process.calls_ = base.string() + ".calls";
  const std::vector<std::string> env = environment(with, process.calls_, simulated);
  const std::vector<char*> argv_pointers = pointers(argv);
  const std::vector<char*> env_pointers = pointers(env);

  int input[2];
  if (pipe2(input, O_CLOEXEC) != 0) fail("making a pipe");
  const pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) {
    dup2(input[0], STDIN_FILENO);
    open_as(STDOUT_FILENO, process.out_, O_WRONLY | O_CREAT | O_TRUNC);
    open_as(STDERR_FILENO, process.err_, O_WRONLY | O_CREAT | O_TRUNC);
    if (with.own_group && setpgid(0, 0) != 0) _exit(124);
    if (with.uid && (setgid(*with.uid) != 0 || setuid(*with.uid) != 0)) _exit(122);
    if (chdir(directory_.c_str()) != 0) _exit(123);
    execvpe(argv_pointers[0], argv_pointers.data(), env_pointers.data());
    dprintf(STDERR_FILENO, "harness: %s: %s\n", argv_pointers[0], strerror(errno));
    _exit(120);
  }
  close(input[0]);
  process.pid_ = pid;
  process.input_ = input[1];
  return process;
}

std::vector<std::string> Machine::fenced(const std::vector<std::string>& program, const With& with) {
  std::vector<std::string> argv = {gpufence_command(), "run"};
  if (with.driver) argv.insert(argv.end(), {"--sim", toml().string()});
  if (!with.devices.empty()) argv.insert(argv.end(), {"-d", with.devices});
  if (!with.gpu_mem.empty()) argv.insert(argv.end(), {"-m", with.gpu_mem});
  argv.insert(argv.end(), with.options.begin(), with.options.end());
  argv.emplace_back("--");
  argv.insert(argv.end(), program.begin(), program.end());
  return argv;
}

Result Machine::run(const std::vector<std::string>& program, const With& with) {
  return start(program, with).wait();
}

Process Machine::start(const std::vector<std::string>& program, const With& with) {
  return launch(fenced(program, with), with, false);
}

Result Machine::run_unfenced(const std::vector<std::string>& program, const With& with) {
  return start_unfenced(program, with).wait();
}

Process Machine::start_unfenced(const std::vector<std::string>& program, const With& with) {
  return launch(program, with, true);
}

Result Machine::gpufence(std::vector<std::string> arguments, const With& with) {
  arguments.insert(arguments.begin(), gpufence_command());
  return command(arguments, with);
}

Result Machine::command(const std::vector<std::string>& argv, const With& with) {
  return launch(argv, with, false).wait();
}

std::string Machine::install() {
  const fs::path built = fs::path(gpufence_command()).parent_path().parent_path();
  const fs::path installed = directory_ / "installed";
  for (const char* file : {"bin/gpufence", "lib/libgpufence.so", "lib/libgpufence-core.so"}) {
    fs::create_directories((installed / file).parent_path());
    fs::copy_file(built / file, installed / file);
  }
  return installed / "bin" / "gpufence";
}

}  // namespace gpufence::harness
