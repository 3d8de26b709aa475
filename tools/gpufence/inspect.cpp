// `gpufence inspect`: what a program is, how it will come to CUDA, and so whether the fence or the simulator
// can hold it; or how a process that runs stands to the fence. Nothing is started. Whether a program can be
// fenced is decided where `run` decides it (program.h).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "policies/size.h"
#include "tools/gpufence/command.h"
#include "tools/gpufence/options.h"
#include "tools/gpufence/parts.h"
#include "tools/gpufence/place.h"
#include "tools/gpufence/process.h"
#include "tools/gpufence/program.h"
#include "tools/gpufence/simulable.h"
#include "tools/gpufence/standing.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {
namespace {

constexpr std::array kOptions{
    OptionSpec{0, "json", "", "as JSON, with stable keys"},
    OptionSpec{'h', "help", "", "this text"},
};

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}
std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

struct Verdict {
  bool possible = true;
  std::string why;
  std::string remedy;
};

struct Inspection {
  Program program;
  std::string kind;
  bool executable = false;
  bool library = false;
  Parts found;
  Verdict fence, simulation;
  std::vector<Obstacle> obstacles;  // of the simulation, where it is possible
};

Verdict judge_simulation(Inspection& inspection, const Environment& environment) {
  if (!inspection.fence.possible && !inspection.library)
    return {false, "it can't be fenced, which --sim needs", inspection.fence.remedy};
  Simulability its =
      simulability(inspection.found, find_simulation(own_directory()).value_or(""), environment);
  if (!its.possible) return {false, std::move(its.why), std::move(its.remedy)};
  inspection.obstacles = std::move(its.obstacles);
  if (!inspection.obstacles.empty()) return {true, "but for what follows", ""};
  const bool known = std::any_of(inspection.found.parts.begin(), inspection.found.parts.end(),
                                 [](const Part& part) { return !part.ways.empty(); });
  return {true,
          known ? "as far as can be told without running it" : "itself; what it opens later isn't seen here",
          ""};
}

std::string kind_of(const Inspection& inspection) {
  const Program& program = inspection.program;
  if (!program.elf) return "unknown";
  const Elf& elf = *program.elf;
  std::string kind = elf.machine.empty() ? own_machine() : elf.machine;
  if (elf.foreign) return "program or library for " + kind;
  if (inspection.library) return "library, " + kind;
  return kind + (elf.interpreter.empty() ? ", static" : ", dynamic, started by " + elf.interpreter);
}

// Where the fence acts, for a program that it can hold.
std::string levels_of(const std::vector<Part>& parts) {
  bool shared = false, fixed = false;
  for (const Part& part : parts) {
    fixed = fixed || part.signs.static_runtime;
    for (const std::string& needed : part.elf.needed) shared = shared || begins(needed, "libcudart.so");
  }
  if (shared && fixed)
    return "driver calls, and calls of the shared runtime; those of the static one with --diagnose all and "
           "CUPTI";
  if (shared) return "driver calls and the shared runtime";
  if (fixed) return "driver calls; those of its static runtime with --diagnose all and CUPTI";
  return "driver calls, and a runtime that is shared";
}

Inspection inspect_file(const std::string& path, const std::string& name, const Environment& environment) {
  Inspection inspection;
  inspection.executable = ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
  const std::string simulation = find_simulation(own_directory()).value_or("");
  auto program = read_program(path, {name}, environment, simulation);
  if (!program) {
    // It would not start, which is an answer as well.
    inspection.program.path = path;
    inspection.program.words = {name};
    inspection.kind = "unknown";
    inspection.fence = {false, "it can't be started: " + program.error().error.why,
                        program.error().error.remedy};
    inspection.simulation = inspection.fence;
    return inspection;
  }
  inspection.program = *std::move(program);
  const Program& found = inspection.program;
  const bool loader = found.elf && begins(found.elf->soname, "ld");
  inspection.library = found.elf && found.scripts.empty() && found.elf->shared_object &&
                       found.elf->interpreter.empty() && !found.elf->position_independent && !loader;
  inspection.kind = kind_of(inspection);
  if (found.unfenceable && !inspection.library)
    inspection.fence = {false, found.unfenceable->why, found.unfenceable->remedy};

  inspection.found = parts_of(found,
                              inspection.library      ? "the library"
                              : found.scripts.empty() ? "the program"
                                                      : found.image,
                              environment);
  if (inspection.fence.possible)
    inspection.fence.why =
        inspection.library ? "with the program that loads it" : levels_of(inspection.found.parts);
  inspection.simulation = judge_simulation(inspection, environment);
  return inspection;
}

// "2 PTX compute_75 (zstd), 198 bytes": entries of one kind together, in the order in which each kind first
// came.
std::vector<std::string> code_rows(const EmbeddedCode& code) {
  struct Sum {
    std::size_t count = 0;
    std::uint64_t bytes = 0, unpacked = 0;
  };
  using Key = std::tuple<int, std::uint32_t, std::string>;
  std::vector<std::pair<Key, Sum>> sums;
  std::map<Key, std::size_t> index;
  for (const GpuCode& entry : code.entries) {
    const Key key{static_cast<int>(entry.kind), entry.sm, entry.packing};
    const auto [place, added] = index.try_emplace(key, sums.size());
    if (added) sums.push_back({key, {}});
    Sum& sum = sums[place->second].second;
    ++sum.count;
    sum.bytes += entry.bytes;
    sum.unpacked += entry.unpacked;
  }
  std::vector<std::string> rows;
  for (const auto& [key, sum] : sums) {
    const auto& [kind, sm, packing] = key;
    std::string row = std::to_string(sum.count) + ' ';
    if (static_cast<GpuCode::Kind>(kind) == GpuCode::Kind::ptx)
      row += "PTX compute_";
    else
      row += static_cast<GpuCode::Kind>(kind) == GpuCode::Kind::cubin ? "cubin sm_" : "other, for sm_";
    row += std::to_string(sm) + ", " + policies::format_size(sum.bytes);
    if (packing != "plain") row += " (" + packing + ", unpacked " + policies::format_size(sum.unpacked) + ')';
    rows.push_back(std::move(row));
  }
  if (!code.problem.empty()) rows.push_back("damaged behind that: " + code.problem);
  return rows;
}

std::string verdict_text(const Verdict& verdict) {
  return (verdict.possible ? "yes: " : "no: ") + verdict.why +
         (verdict.remedy.empty() ? std::string{} : "; " + verdict.remedy);
}

// Programs that run others' code: what they load or start is not in their files.
std::string later_text(const std::string& image) {
  const std::string name = base_name(image);
  if (is_cuda_itself(name)) return "it is a part of CUDA itself";
  if (begins(name, "python") || begins(name, "pypy"))
    return "not by itself: Python's packages load CUDA later, which the fence meets then";
  for (const char* shell : {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"})
    if (name == shell)
      return "not by itself: what a shell starts is fenced with it, and looked at one by one";
  return "no sign of it: what it opens later isn't seen here, and the fence meets it then";
}

std::string text_of(const Inspection& inspection) {
  std::string text;
  const auto row = [&](std::string_view key, const std::string& value) {
    text +=
        std::string(key) + std::string(key.size() < 15 ? 15 - key.size() : 1, ' ') + escaped(value) + '\n';
  };
  const Program& program = inspection.program;
  row("program", program.path);
  for (std::size_t at = 0; at < program.scripts.size(); ++at)
    row(at == 0 ? "script" : "",
        "runs " + (at + 1 < program.scripts.size() ? program.scripts[at + 1] : program.image));
  row("kind", inspection.kind);
  if (!inspection.executable && !inspection.library)
    row("", "not executable: chmod +x, or name its interpreter");
  if (!inspection.found.parts.empty()) {
    bool any = false;
    for (const Part& part : inspection.found.parts)
      for (const std::string& way : part.ways) {
        row(any ? "" : "reaches CUDA", (part.name == "the program" ? std::string{} : part.name + ": ") + way);
        any = true;
      }
    if (!any) row("reaches CUDA", later_text(program.image));
    any = false;
    for (const Part& part : inspection.found.parts)
      for (const std::string& line : code_rows(part.code)) {
        row(any ? "" : "GPU code", (part.name == "the program" ? std::string{} : part.name + ": ") + line);
        any = true;
      }
    if (!any) row("GPU code", "none embedded");
  }
  for (const Library& library : inspection.found.missing)
    row("missing", library.name + ", which " + base_name(library.needed_by) + " needs");
  row("can be fenced", verdict_text(inspection.fence));
  row("simulated", verdict_text(inspection.simulation));
  for (const Obstacle& obstacle : inspection.obstacles) row("", describe(obstacle) + "; " + obstacle.remedy);
  return text;
}

std::string json_text(const Inspection& inspection) {
  const auto or_null = [](const std::string& value) {
    return value.empty() ? nlohmann::json(nullptr) : nlohmann::json(value);
  };
  const auto verdict = [&](const Verdict& of) {
    nlohmann::ordered_json out;
    out["possible"] = of.possible;
    out["why"] = or_null(of.why);
    out["remedy"] = or_null(of.remedy);
    return out;
  };
  const Program& program = inspection.program;
  nlohmann::ordered_json out;
  out["schema"] = 1;
  out["program"] = program.path;
  out["scripts"] = program.scripts;
  out["image"] = or_null(program.image);
  out["kind"] = inspection.kind;
  out["executable"] = inspection.executable;
  out["parts"] = nlohmann::ordered_json::array();
  for (const Part& part : inspection.found.parts) {
    nlohmann::ordered_json one;
    one["name"] = part.name;
    one["path"] = part.path;
    one["ways"] = part.ways;
    one["gpu_code"] = nlohmann::ordered_json::array();
    for (const GpuCode& code : part.code.entries)
      one["gpu_code"].push_back({{"kind", code.kind == GpuCode::Kind::ptx     ? "ptx"
                                          : code.kind == GpuCode::Kind::cubin ? "cubin"
                                                                              : "other"},
                                 {"sm", code.sm},
                                 {"packing", code.packing},
                                 {"bytes", code.bytes},
                                 {"unpacked", code.unpacked}});
    one["gpu_code_problem"] = or_null(part.code.problem);
    out["parts"].push_back(std::move(one));
  }
  out["missing"] = nlohmann::ordered_json::array();
  for (const Library& library : inspection.found.missing)
    out["missing"].push_back({{"name", library.name}, {"needed_by", library.needed_by}});
  out["fence"] = verdict(inspection.fence);
  out["simulation"] = verdict(inspection.simulation);
  out["simulation"]["obstacles"] = nlohmann::ordered_json::array();
  for (const Obstacle& obstacle : inspection.obstacles)
    out["simulation"]["obstacles"].push_back({{"what", obstacle.what},
                                              {"name", or_null(obstacle.name)},
                                              {"part", or_null(obstacle.part)},
                                              {"why", obstacle.why},
                                              {"remedy", obstacle.remedy}});
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

int inspect_process(int pid, bool json) {
  const auto process = read_process(pid);
  if (!process) {
    say(process.error());
    return kNothing;
  }
  const Standing standing = standing_of(*process, process->environment);
  const std::array<std::pair<const char*, const std::vector<MappedFile>*>, 3> libraries{
      {{"driver", &process->drivers}, {"runtime", &process->runtimes}, {"NVML", &process->nvmls}}};
  if (json) {
    nlohmann::ordered_json out;
    out["schema"] = 1;
    out["pid"] = pid;
    out["program"] = process->program;
    for (const auto& [what, files] : libraries) {
      nlohmann::ordered_json list = nlohmann::ordered_json::array();
      for (const MappedFile& file : *files) list.push_back({{"path", file.path}, {"copies", file.copies}});
      out[what == std::string_view("NVML") ? "nvml" : what] = std::move(list);
    }
    add_to(out, standing);
    return print(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  }
  std::string text;
  const auto row = [&](std::string_view key, const std::string& value) {
    text += std::string(key) + std::string(15 - key.size(), ' ') + escaped(value) + '\n';
  };
  row("process", std::to_string(pid) + ' ' + process->program);
  for (const auto& [what, files] : libraries) {
    if (files->empty()) row(what, "none is mapped");
    for (const MappedFile& file : *files)
      row(what,
          file.path + (file.copies > 1 ? ", " + std::to_string(file.copies) + " copies" : std::string{}));
  }
  return print(text + text_of(standing));
}

// Why nothing can be told of this path, in one line.
std::optional<Error> why_unreadable(const std::string& name, const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return errno == ENOENT || errno == ENOTDIR
               ? Error{name, "there is no such program", "look at its spelling"}
               : Error{name, std::string("can't be reached (") + std::strerror(errno) + ')',
                       "look at the permissions of its directories"};
  if (S_ISDIR(status.st_mode)) return Error{name, "is a directory", "name a program in it"};
  if (!S_ISREG(status.st_mode)) return Error{name, "is no ordinary file", "name a program"};
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0)
    return Error{name, std::string("can't be read (") + std::strerror(errno) + ')', "make it readable"};
  const std::string start =
      read_bytes(file, 0, std::min<std::uint64_t>(static_cast<std::uint64_t>(status.st_size), 256))
          .value_or("");
  ::close(file);
  // What the kernel won't take goes to the shell, which is no place for binary files.
  if (start.empty()) return Error{name, "is empty", "name a program"};
  const bool text = std::none_of(start.begin(), start.end(), [](char c) {
    return (c >= 0 && c < 0x20 && std::strchr("\t\n\r\f", c) == nullptr) || c == '\0' || c == 0x7f;
  });
  if (!begins(start, "\177ELF") && !begins(start, "#!") && !text)
    return Error{name, "is neither a program nor a script", "name a program"};
  return std::nullopt;
}

}  // namespace

std::string inspect_help() {
  return "gpufence inspect [--json] PROGRAM|PID   exit status 0: told, 1: can't be read, 2: wrong usage\n"
         "                                        (a program whose name is a number: ./4711)\n" +
         help_of(kOptions);
}

int inspect(std::span<const std::string> words, const Environment& environment) {
  const auto usage = [](const Error& error) {
    say(error);
    return kUsage;
  };
  const auto read = read_options(kOptions, words, "gpufence inspect -h");
  if (!read) return usage(read.error());
  bool json = false;
  for (const GivenOption& given : read->given) {
    if (given.spec->name == "json") json = true;
    if (given.spec->name == "help") return print(inspect_help());
  }
  if (read->end >= words.size())
    return usage({"inspect", "no program and no PID is named", "write gpufence inspect PROGRAM|PID"});
  if (read->end + 1 < words.size())
    return usage({words[read->end + 1], "inspect takes one program or PID", "see gpufence inspect -h"});
  const std::string& name = words[read->end];
  if (const auto pid = process_number(name)) return inspect_process(*pid, json);

  std::string path = name;
  if (name.find('/') == std::string::npos) {
    const auto found = resolve(name, environment);
    if (!found) {
      Error error = found.error().error;
      if (::access(name.c_str(), F_OK) == 0)
        error.remedy = "write ./" + name + " for the one in this directory";
      say(error);
      return kNothing;
    }
    path = *found;
  }
  if (const auto error = why_unreadable(name, path)) {
    say(*error);
    return kNothing;
  }
  const Inspection inspection = inspect_file(path, name, environment);
  return print(json ? json_text(inspection) : text_of(inspection));
}

}  // namespace gpufence::command
