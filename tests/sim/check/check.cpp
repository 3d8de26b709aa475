// What of a program the simulated machine will not run, told before the program starts, by those who will
// refuse it later: the same reader of GPU code, the same interpreter, the same libraries. Runs nothing of the
// program.
//
//   gpufence-sim-check {code FILE OFFSET BYTES | parts FILE OFFSET BYTES | call NAME}…
//
// code: fatbins that stand for themselves (.nv_fatbin); parts: fatbins that make one program together
// (__nv_relfatbin, of -rdc=true); call: a function of CUDA that the program imports. The machine is
// GPUFENCE_SIM's; without one, a GPU of `--sim 1`. Answers on stdout with a JSON list of {what, name, file,
// why, remedy}: `what` is "kernel", "code" or "call". Status 0; 2 for words that it does not know.
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "compile.h"
#include "instead.h"
#include "machine.h"

namespace gpufence::sim {
namespace {

using Findings = nlohmann::ordered_json;

void add(Findings& findings, const char* what, const std::string& name, const std::string& file,
         const std::string& why, std::string_view remedy) {
  Findings one{{"what", what}, {"name", name}, {"file", file}, {"why", why}, {"remedy", remedy}};
  // The same source for several GPUs, or one kernel of many files.
  for (const Findings& known : findings)
    if (known == one) return;
  findings.push_back(std::move(one));
}

std::string demangled(const std::string& name) {
  int status = -1;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string out = status == 0 && text != nullptr ? text : name;
  free(text);
  return out;
}

// A stretch of a file in memory; empty if it can't be had.
class Stretch {
 public:
  Stretch(const std::string& file, uint64_t offset, uint64_t bytes) {
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const off_t end = lseek(fd, 0, SEEK_END);
    if (end >= 0 && offset <= static_cast<uint64_t>(end) && bytes <= static_cast<uint64_t>(end) - offset) {
      const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
      const uint64_t before = offset % page;
      void* at =
          mmap(nullptr, before + bytes, PROT_READ, MAP_PRIVATE, fd, static_cast<off_t>(offset - before));
      if (at != MAP_FAILED) {
        begin_ = static_cast<const uint8_t*>(at) + before;
        bytes_ = bytes;
      }
    }
    close(fd);
  }
  // Kept mapped: the process ends soon.
  [[nodiscard]] const uint8_t* begin() const { return begin_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  const uint8_t* begin_ = nullptr;
  uint64_t bytes_ = 0;
};

// Why there is no code at all for these GPUs, or nothing to say: the driver's own answer then is CUDA's.
void add_no_code(const NoCode& error, const std::string& file, Findings& findings) {
  if (error.answer == CUDA_ERROR_NO_BINARY_FOR_GPU) {
    const size_t remedy = error.told.rfind("; ");
    add(findings, "code", "", file, error.told.substr(0, remedy), error.told.substr(remedy + 2));
  } else if (error.answer == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    add(findings, "code", "", file, "its PTX is newer than the machine's driver",
        "write a higher driver_version into the machine file");
  } else if (error.answer == CUDA_ERROR_NOT_SUPPORTED) {
    add(findings, "code", "", file, error.log, "run it on a GPU");
  } else {
    add(findings, "code", "", file, "its PTX is damaged: " + error.log, "compile it again");
  }
}

void check_code(const CodeImage& image, const std::string& file, const Machine& machine, Findings& findings) {
  std::set<uint32_t> capabilities;
  for (const Gpu& gpu : machine.gpus)
    capabilities.insert(static_cast<uint32_t>(gpu.cc_major * 10 + gpu.cc_minor));
  std::optional<NoCode> none;
  bool any = false;
  for (const uint32_t capability : capabilities) {
    const auto made = compile_for(image, capability, machine.driver_version);
    if (!made) {
      none = made.error();
      continue;
    }
    any = true;
    for (const ptx::Function& function : (*made)->functions)
      if (function.is_entry && !function.unsupported.empty()) {
        std::string why = function.unsupported;
        std::string itself = " in ";
        itself.append(function.name);
        if (const size_t at = why.find(itself + ","); at != std::string::npos) why.erase(at, itself.size());
        add(findings, "kernel", demangled(function.name), file, why,
            instead_of_instruction(function.unsupported));
      }
  }
  // Where some of the GPUs can run it, the program may well mean those.
  if (none && !any) add_no_code(*none, file, findings);
}

// A simulated library's weak exports are the calls that it has no behaviour for (driver/defaults.cpp,
// runtime/unsupported.cpp).
class SimulatedLibrary {
 public:
  explicit SimulatedLibrary(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  [[nodiscard]] bool lacks(const std::string& name) const {
    void* address = handle_ != nullptr ? dlsym(handle_, name.c_str()) : nullptr;
    if (address == nullptr) return false;  // another library's, or none's: ld.so will say so
    Dl_info info{};
    const ElfW(Sym)* symbol = nullptr;
    return dladdr1(address, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
                   RTLD_DL_SYMENT) != 0 &&
           symbol != nullptr && ELF64_ST_BIND(symbol->st_info) == STB_WEAK;
  }

 private:
  void* handle_;
};

std::string own_directory() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  const std::string_view all(path, length > 0 ? static_cast<size_t>(length) : 0);
  return std::string(all.substr(0, all.rfind('/')));
}

int usage() {
  fprintf(stderr, "gpufence-sim-check {code FILE OFFSET BYTES | parts FILE OFFSET BYTES | call NAME}...\n");
  return 2;
}

int check(const std::vector<std::string>& words) {
  auto machine = read_machine("1");
  if (const char* spec = getenv("GPUFENCE_SIM"); spec != nullptr && *spec != '\0') {
    auto asked = read_machine(spec);
    if (asked) machine = std::move(asked);  // what is wrong with it, the libraries say
  }
  Findings findings = Findings::array();
  std::map<std::string, CodeImage> parts;
  std::vector<std::pair<std::string, Binary>> alone;
  std::vector<std::string> calls;
  for (size_t i = 0; i < words.size();) {
    const bool part = words[i] == "parts";
    if ((part || words[i] == "code") && words.size() - i >= 4) {
      const std::string& file = words[i + 1];
      const Stretch section(file, strtoull(words[i + 2].c_str(), nullptr, 10),
                            strtoull(words[i + 3].c_str(), nullptr, 10));
      for (Binary& binary : read_section(section.begin(), section.bytes())) {
        if (part)
          parts[file].members.push_back(std::move(binary));
        else
          alone.emplace_back(file, std::move(binary));
      }
      i += 4;
    } else if (words[i] == "call" && words.size() - i >= 2) {
      calls.push_back(words[i + 1]);
      i += 2;
    } else {
      return usage();
    }
  }
  for (auto& [file, image] : parts) check_code(image, file, *machine, findings);
  for (auto& [file, binary] : alone) {
    // nvcc's device linker puts machine code without any kernel into every program; of a file that has
    // nothing but machine code the command itself knows.
    if (binary.ptx.empty()) continue;
    CodeImage image;
    image.members.push_back(std::move(binary));
    check_code(image, file, *machine, findings);
  }
  if (!calls.empty()) {
    const std::string here = own_directory();
    const SimulatedLibrary driver(here + "/libcuda.so.1"), runtime(here + "/libcudart.so.13");
    for (const std::string& name : calls)
      if (driver.lacks(name) || runtime.lacks(name))
        add(findings, "call", name, "", "the simulator has no " + name, instead_of_call(name));
  }
  const std::string text = findings.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  fputs(text.c_str(), stdout);
  return fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gpufence::sim

int main(int count, char** words) {
  return gpufence::sim::check(std::vector<std::string>(words + 1, words + count));
}
