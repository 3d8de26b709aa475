// Nothing here runs the program. What can't be told (an unreadable file) counts as unfenceable: under a cap
// it is better to refuse than to let a program through and call it fenced.
#include "tools/gpufence/program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "tools/gpufence/elf.h"

namespace gpufence::command {
namespace {

constexpr int kDeepestScript = 5;         // the kernel gives up at this depth as well
constexpr std::size_t kScriptLine = 256;  // BINPRM_BUF_SIZE

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}
bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

Refusal cannot_run(const std::string& what, std::string why, std::string remedy) {
  return {kCannotRun, {what, std::move(why), std::move(remedy)}};
}

// Why execve would not take this file, or nothing.
std::optional<Refusal> check_executable(const std::string& name, const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      return Refusal{kNotFound, {name, "there is no such program", "look at its spelling"}};
    return cannot_run(name, "can't be reached (" + std::string(std::strerror(errno)) + ')',
                      "look at the permissions of its directories");
  }
  if (S_ISDIR(status.st_mode)) return cannot_run(name, "is a directory", "name a program in it");
  if (!S_ISREG(status.st_mode)) return cannot_run(name, "is no ordinary file", "name a program");
  if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0)
    return cannot_run(name,
                      errno == EACCES ? "is not executable"
                                      : "can't be executed (" + std::string(std::strerror(errno)) + ')',
                      "chmod +x, or name its interpreter first");
  return std::nullopt;
}

// Whether execve of this file makes a secure-mode process (AT_SECURE), in which the loader drops our preload.
std::optional<std::string> gains_privilege(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  struct statvfs mount {};
  const bool ignored = (::fstatvfs(descriptor, &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0) ||
                       ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
  uid_t user = ::geteuid();
  gid_t group = ::getegid();
  if (!ignored && (status.st_mode & S_ISUID) != 0) user = status.st_uid;
  if (!ignored && (status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP)) group = status.st_gid;
  if (user != ::getuid()) return "is setuid";
  if (group != ::getgid()) return "is setgid";
  // Root gains nothing by file capabilities; everyone else does.
  if (!ignored && ::getuid() != 0 && ::fgetxattr(descriptor, "security.capability", nullptr, 0) > 0)
    return "has file capabilities";
  return std::nullopt;
}

struct ScriptLine {
  std::string interpreter;
  std::string argument;  // all the rest of the line: the kernel does not split it
};

// Nothing for a file that the kernel doesn't take for a script: without `#!`, with nothing behind it, or with
// a name that is longer than what the kernel reads.
std::optional<ScriptLine> script_line(std::string_view start) {
  if (!begins(start, "#!")) return std::nullopt;
  const bool whole =
      start.size() < kScriptLine || start.find_first_of(std::string_view("\n\0", 2)) != start.npos;
  start = start.substr(2, start.find_first_of(std::string_view("\n\0", 2)) - 2);
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!start.empty() && blank(start.front())) start.remove_prefix(1);
  const std::size_t end = start.find_first_of(" \t");
  if (start.empty() || (!whole && end == std::string_view::npos)) return std::nullopt;
  while (!start.empty() && blank(start.back())) start.remove_suffix(1);
  ScriptLine line{std::string(start.substr(0, end)), {}};
  if (end != std::string_view::npos) {
    start.remove_prefix(end);
    while (!start.empty() && blank(start.front())) start.remove_prefix(1);
    line.argument = std::string(start);
  }
  return line;
}

// What `env` of a `#!/usr/bin/env …` line will start, and whether it drops the environment on the way.
struct EnvLine {
  std::string program;
  bool drops = false;
};

EnvLine env_line(const std::string& argument) {
  EnvLine line;
  std::vector<std::string> words;
  std::string word;
  for (const char c : argument + ' ') {
    if (c != ' ' && c != '\t') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  // Without -S the kernel hands env the rest of the line as one word: a name with blanks in it, rarely meant.
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& at = words[i];
    if (at == "-i" || at == "-" || at == "--ignore-environment" || (begins(at, "-iS") && at.size() == 3)) {
      line.drops = true;
    } else if (at == "-u" || at == "-C") {
      if (at == "-u" && i + 1 < words.size() && words[i + 1] == "LD_PRELOAD") line.drops = true;
      ++i;
    } else if (begins(at, "-")) {
      if (begins(at, "-S") && at.size() > 2) {
        line.program = at.substr(2);
        return line;
      }
    } else if (at.find('=') == std::string::npos) {
      line.program = at;
      return line;
    }
  }
  return line;
}

bool is_sanitizer(std::string_view library) {
  for (const std::string_view name :
       {"libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so", "libclang_rt.asan", "libclang_rt.tsan"})
    if (begins(library, name)) return true;
  return false;
}

std::string sanitizer_among(const Elf& elf) {
  const auto found = std::find_if(elf.needed.begin(), elf.needed.end(),
                                  [](const std::string& library) { return is_sanitizer(library); });
  return found == elf.needed.end() ? std::string{} : *found;
}

// What execve will not find or not take of the file that a program names in its first line, or as its loader.
std::optional<Refusal> check_started_by(const std::string& name, const char* role, const std::string& image) {
  const auto refusal = check_executable(name, image);
  if (!refusal) return std::nullopt;
  const std::string what = std::string("its ") + role + ' ' + image + ' ';
  if (refusal->status == kNotFound)
    return cannot_run(name, what + "doesn't exist",
                      !image.empty() && image.back() == '\r'
                          ? "save it without carriage returns at the ends of its lines"
                      : role == std::string_view("loader") ? "use a build for this system"
                                                           : "install it, or correct the first line");
  return cannot_run(name, what + refusal->error.why, "correct the first line");
}

// The refusal: execve would fail.
std::optional<Refusal> look_into(Program& program, const Environment& environment,
                                 const std::string& simulation) {
  const std::string& name = program.words.front();
  std::string image = program.path;
  bool through_env = false;
  for (int depth = 0; depth <= kDeepestScript; ++depth) {
    const Descriptor file(::open(image.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (file.get() < 0) {
      program.unfenceable = {"it can't be read (" + std::string(std::strerror(errno)) +
                                 "), so whether a preload holds is unknown",
                             "make " + image + " readable"};
      return std::nullopt;
    }
    std::array<char, kScriptLine> buffer{};
    const ssize_t length = ::pread(file.get(), buffer.data(), buffer.size(), 0);
    const std::string_view start(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);

    if (!begins(start, "\177ELF")) {
      const auto script = script_line(start);
      if (!script) {
        // As execvp: a file without a magic number is the shell's.
        program.scripts.push_back(image);
        image = "/bin/sh";
        if (auto refusal = check_started_by(name, "interpreter", image)) return refusal;
        continue;
      }
      program.scripts.push_back(image);
      image = script->interpreter;
      if (auto refusal = check_started_by(name, "interpreter", image)) return refusal;
      if (base_name(image) == "env") {
        const EnvLine line = env_line(script->argument);
        if (line.drops) {
          program.unfenceable = {"its first line starts it through env without the environment",
                                 "remove env's -i or -u LD_PRELOAD from that line"};
          return std::nullopt;
        }
        const auto found = resolve(line.program, environment);
        if (found) image = *found;
        through_env = true;
      }
      continue;
    }

    program.image = image;
    const auto elf = read_elf(file.get());
    if (elf && !elf->interpreter.empty())
      if (auto refusal = check_started_by(name, "loader", elf->interpreter)) return refusal;
    const std::string file_name = image == program.path ? "it " : image + " ";
    if (!elf) {
      program.unfenceable = {file_name + "is damaged: " + elf.error(), "build or copy it again"};
    } else if (elf->foreign) {
      program.unfenceable = {
          file_name + "is a program for " + elf->machine + ", and libgpufence.so is for " + own_machine(),
          "use a build for " + own_machine(), true};
    } else if (const auto privilege = gains_privilege(file.get())) {
      program.unfenceable = {file_name + *privilege + ", so the loader drops LD_PRELOAD",
                             "start the program that uses the GPU in another way"};
    } else if (elf->interpreter.empty()) {
      // The loader itself has no PT_INTERP and does honour LD_PRELOAD: `ld-linux-x86-64.so.2 ./prog`.
      const bool loader = begins(elf->soname, "ld-linux") || begins(elf->soname, "ld64.so");
      if (!loader)
        program.unfenceable = {file_name + "is statically linked, so nothing can be preloaded into it",
                               "link it dynamically"};
    } else if (begins(base_name(elf->interpreter), "ld-musl")) {
      program.unfenceable = {file_name + "is a program for musl, and libgpufence.so is for glibc",
                             "use a build for glibc", true};
    } else if (!begins(base_name(elf->interpreter), "ld-linux") &&
               !begins(base_name(elf->interpreter), "ld64.so") &&
               !begins(base_name(elf->interpreter), "ld.so")) {
      program.unfenceable = {file_name + "is started by " + elf->interpreter + ", which isn't glibc's loader",
                             "use a build for glibc", true};
    }
    if (elf) {
      program.elf = *elf;
      program.sanitizer = sanitizer_among(*elf);
      if (!simulation.empty() && !elf->foreign)
        program.unsimulable = why_unsimulable(*elf, image, simulation);
    }
    return std::nullopt;
  }
  // The kernel gives up as well; but to it each env starts anew.
  const char* why = "its interpreters are scripts that lead to no program";
  if (!through_env) return cannot_run(name, why, "look at its first line");
  program.unfenceable = {why, "look at its first line"};
  return std::nullopt;
}

}  // namespace

// LD_LIBRARY_PATH, by which --sim puts its libraries first, loses against DT_RPATH.
std::optional<Unfenceable> why_unsimulable(const Elf& elf, const std::string& image,
                                           const std::string& simulation) {
  for (const std::string& library : elf.needed) {
    const bool nvidia =
        begins(library, "libcudart.so.") || library == "libcuda.so.1" || library == "libnvidia-ml.so.1";
    if (!nvidia) continue;
    if (::access((simulation + '/' + library).c_str(), F_OK) != 0)
      return Unfenceable{"it needs " + library + ", which the simulated machine doesn't have",
                         "build it with CUDA 13 and -cudart shared"};
    for (const std::string& directory : search_directories(elf.rpath, image)) {
      struct stat theirs {
      }, ours{};
      if (::stat((directory + '/' + library).c_str(), &theirs) != 0) continue;
      if (::stat((simulation + '/' + library).c_str(), &ours) == 0 && theirs.st_ino == ours.st_ino &&
          theirs.st_dev == ours.st_dev)
        break;
      return Unfenceable{"its DT_RPATH leads to NVIDIA's own " + library + " in " + directory,
                         "link it with -Wl,--enable-new-dtags, or remove the path with chrpath -d"};
    }
  }
  return std::nullopt;
}

std::vector<std::string> search_directories(std::string_view path, const std::string& file,
                                            std::string_view separators) {
  std::vector<std::string> directories;
  const std::string origin = file.substr(0, file.rfind('/'));
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of(separators), path.size());
    std::string directory(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
    for (const std::string_view token : {"$ORIGIN", "${ORIGIN}"})
      for (std::size_t at = directory.find(token); at != std::string::npos;
           at = directory.find(token, at + origin.size()))
        directory.replace(at, token.size(), origin);
    if (!directory.empty()) directories.push_back(std::move(directory));
  }
  return directories;
}

tl::expected<std::string, Refusal> resolve(const std::string& name, const Environment& environment) {
  if (name.empty()) return tl::unexpected(Refusal{kNotFound, {"''", "there is no such program", "name one"}});
  if (name.find('/') != std::string::npos) {
    if (auto refusal = check_executable(name, name)) return tl::unexpected(*std::move(refusal));
    return name;
  }
  const std::string path = environment.get("PATH").value_or("/bin:/usr/bin");
  std::optional<Refusal> best;
  std::string_view rest = path;
  while (true) {
    const std::size_t colon = rest.find(':');
    const std::string_view directory = rest.substr(0, colon);
    // An empty entry is the current directory.
    const std::string candidate = (directory.empty() ? "." : std::string(directory)) + '/' + name;
    auto refusal = check_executable(name, candidate);
    if (!refusal) return candidate;
    // A directory of that name in PATH is no find; a file that can't be executed is remembered and passed
    // over.
    if (refusal->status == kCannotRun && refusal->error.why != "is a directory" && !best) {
      refusal->error.what = candidate;
      best = std::move(refusal);
    }
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (best) return tl::unexpected(*std::move(best));
  return tl::unexpected(
      Refusal{kNotFound, {name, "there is no such program in PATH", "look at its spelling and at PATH"}});
}

tl::expected<Program, Refusal> read_program(const std::string& path, const std::vector<std::string>& words,
                                            const Environment& environment, const std::string& simulation) {
  Program program;
  program.words = words;
  program.path = path;
  if (auto refusal = look_into(program, environment, simulation)) return tl::unexpected(*std::move(refusal));

  // Launchers that hand the work to another place, where this environment doesn't reach.
  struct Elsewhere {
    const char* name;
    const char* remedy;
  };
  static constexpr Elsewhere kElsewhere[] = {
      {"docker", "start it inside: docker run --gpus all IMAGE gpufence run OPTIONS -- PROGRAM"},
      {"podman", "start it inside: podman run IMAGE gpufence run OPTIONS -- PROGRAM"},
      {"kubectl", "start it inside: kubectl exec POD -- gpufence run OPTIONS -- PROGRAM"},
      {"srun", "start it on the nodes: srun gpufence run OPTIONS -- PROGRAM"},
      {"sbatch", "write gpufence run OPTIONS -- PROGRAM in the batch script"},
      {"ssh", "start it there: ssh HOST gpufence run OPTIONS -- PROGRAM"},
      {"sudo", "start it inside: sudo gpufence run OPTIONS -- PROGRAM"},
      {"apptainer", "start it inside: apptainer exec --nv IMAGE gpufence run OPTIONS -- PROGRAM"},
      {"systemd-run", "start it inside: systemd-run --scope gpufence run OPTIONS -- PROGRAM"},
      {"mpirun", "start it in each rank: mpirun gpufence run OPTIONS -- PROGRAM"},
  };
  for (const Elsewhere& launcher : kElsewhere)
    if (base_name(words.front()) == launcher.name)
      program.unfenceable = {"it starts its program elsewhere, where the fence doesn't reach",
                             launcher.remedy};
  return program;
}

tl::expected<Program, Refusal> find_program(const std::vector<std::string>& words,
                                            const Environment& environment, const std::string& simulation) {
  const auto path = resolve(words.front(), environment);
  if (!path) return tl::unexpected(path.error());
  return read_program(*path, words, environment, simulation);
}

std::string sanitizer_of(const std::string& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) return {};
  const auto elf = read_elf(descriptor.get());
  return elf ? sanitizer_among(*elf) : std::string{};
}

}  // namespace gpufence::command
