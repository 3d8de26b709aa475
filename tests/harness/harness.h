// The test machine as a value: describe its GPUs, run programs on it, fenced or not, and look at what they
// said.
//   Machine m;
//   m.add_gpu({.name = "H100", .memory = 8_GiB});
//   Result r = m.run({probe("vectors_shared")}, {.devices = "0", .gpu_mem = "1GiB"});
// Everything lives in a directory of its own (machine file, shared memory of the GPUs, state, journal) that
// goes with the value, so that tests run side by side. Nothing here knows what the fence is made of.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpufence::harness {

inline namespace literals {
constexpr uint64_t operator""_MiB(unsigned long long n) {
  return n << 20;
}
constexpr uint64_t operator""_GiB(unsigned long long n) {
  return n << 30;
}
}  // namespace literals

// What is empty or zero is left to the simulator, which gives each GPU a UUID and a PCI id of its own.
struct GpuSpec {
  std::string name{};
  uint64_t memory = 0;  // bytes
  std::string uuid{};
  std::string pci{};
  std::string compute_capability{};
  uint64_t context = 0;                // bytes that a context costs
  std::optional<int> fastest_rank{};   // place in CUDA's default order
  std::optional<int> fail_alloc_at{};  // fault: this allocation of a process answers out of memory
};

// How a program is run. The first three are spelled as options of `gpufence run`, and only run() takes them.
struct With {
  std::string devices{};
  std::string gpu_mem{};
  std::vector<std::string> options{};        // further options of `gpufence run`
  std::map<std::string, std::string> env{};  // added to a cleaned environment
  std::vector<std::string> unset{};          // taken out of it
  std::optional<uid_t> uid{};                // the user the program runs as; needs root
  bool driver = true;                        // false: a machine without libcuda.so.1
  bool own_group = false;                    // a process group of its own, as a shell gives to a job
};

// A call that reached the simulated driver, by exported name.
struct Call {
  pid_t pid = 0;
  pid_t tid = 0;
  std::string name;
  int result = 0;
};

struct Result {
  int exit = -1;  // exit status; -1 if a signal ended it
  int signal = 0;
  std::string out;
  std::string err;
  std::vector<Call> calls;  // in order

  bool says(std::string_view text) const { return out.find(text) != std::string::npos; }
  bool complains(std::string_view text) const { return err.find(text) != std::string::npos; }
  std::ptrdiff_t called(std::string_view name) const;
};

// A program that is still running. Ended and reaped at scope end, whatever the test made of it.
class Process {
 public:
  Process(Process&& other) noexcept;
  Process(const Process&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  // True once the program's output holds the text; false if it ended without.
  bool says(std::string_view text);
  void send(std::string_view text);  // to its standard input
  void signal(int number);
  Result wait();  // closes its standard input

 private:
  friend class Machine;
  Process() = default;

  pid_t pid_ = -1;
  int input_ = -1;
  std::string argv_;
  std::filesystem::path out_, err_, calls_;
};

class Machine {
 public:
  Machine();
  Machine(const Machine&) = delete;
  ~Machine();

  void add_gpu(const GpuSpec& spec);
  void set_driver_version(int version) { driver_version_ = version; }
  void set_peers(std::string_view peers) { peers_ = peers; }  // "all": every GPU reaches every other's memory

  // `gpufence run --sim <this machine> … -- program`.
  Result run(const std::vector<std::string>& program, const With& with = {});
  Process start(const std::vector<std::string>& program, const With& with = {});
  // The program alone, on the simulated driver.
  Result run_unfenced(const std::vector<std::string>& program, const With& with = {});
  Process start_unfenced(const std::vector<std::string>& program, const With& with = {});
  // `gpufence …` or any command, with nothing added but this machine's environment.
  Result gpufence(std::vector<std::string> arguments, const With& with = {});
  Result command(const std::vector<std::string>& argv, const With& with = {});

  // Copies the command and its libraries into this machine's directory, where every user can read them, and
  // gives the copy's path.
  std::string install();

  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path toml();  // the machine file, written as described so far

 private:
  std::vector<std::string> environment(const With& with, const std::filesystem::path& calls, bool simulated);
  Process launch(std::vector<std::string> argv, const With& with, bool simulated);
  std::vector<std::string> fenced(const std::vector<std::string>& program, const With& with);

  std::filesystem::path directory_;
  std::vector<GpuSpec> gpus_;
  std::string peers_;
  int driver_version_ = 0;  // 0: the simulator's own
  int launched_ = 0;
};

// Paths of what was built.
std::string probe(std::string_view name);
std::string gpufence_command();
std::string simulator(std::string_view library);

std::string read_file(const std::filesystem::path& path);

// How each program of the running test ended and what it wrote, cut to a readable length; for failures.
const std::vector<std::string>& programs_of_this_test();
void forget_programs();

}  // namespace gpufence::harness
