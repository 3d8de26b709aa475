// Which programs can be fenced, found and looked into without running them; and that no file can harm the
// looking.
#include "tools/gpufence/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "tools/gpufence/elf.h"
#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::in_tree;
using testing::Scratch;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Why it can't be fenced; "" if it can.
std::string why(const std::string& path,
                const std::vector<std::string>& environment = {"PATH=/usr/bin:/bin"}) {
  const auto program = find_program({path}, Environment(environment), "");
  if (!program) return program.error().error.text();
  return program->unfenceable ? program->unfenceable->why : "";
}

std::string refusal(const std::string& name,
                    const std::vector<std::string>& environment = {"PATH=/usr/bin:/bin"}) {
  const auto program = find_program({name}, Environment(environment), "");
  return program ? "none" : std::to_string(program.error().status) + ' ' + program.error().error.text();
}

TEST(Program, IsFoundInPathAsExecvpFindsIt) {
  const Scratch one, two;
  (void)one.file("tool", "#!/bin/sh\n", 0644);
  const std::string second = two.file("tool", "#!/bin/sh\n", 0755);
  const std::vector<std::string> environment{"PATH=/nonexistent:" + one.path() + ':' + two.path()};
  const auto found = find_program({"tool", "x"}, Environment(environment), "");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, second);
  EXPECT_EQ(found->words, (std::vector<std::string>{"tool", "x"}));
}

TEST(Program, WhatIsMissingIs127) {
  EXPECT_EQ(refusal("no-such-program"),
            "127 no-such-program: there is no such program in PATH; look at its spelling and at PATH");
  EXPECT_EQ(refusal("/nonexistent/program"),
            "127 /nonexistent/program: there is no such program; look at its spelling");
  EXPECT_EQ(refusal("/bin/sh/program"),
            "127 /bin/sh/program: there is no such program; look at its spelling");
  EXPECT_EQ(refusal(""), "127 '': there is no such program; name one");
}

TEST(Program, WhatCannotBeExecutedIs126) {
  const Scratch scratch;
  const std::string plain = scratch.file("plain", "text", 0644);
  EXPECT_EQ(refusal(plain), "126 " + plain + ": is not executable; chmod +x, or name its interpreter first");
  EXPECT_EQ(refusal("plain", {"PATH=" + scratch.path()}),
            "126 " + plain + ": is not executable; chmod +x, or name its interpreter first");
  EXPECT_EQ(refusal(scratch.path()), "126 " + scratch.path() + ": is a directory; name a program in it");
  EXPECT_EQ(refusal("/dev/null"), "126 /dev/null: is no ordinary file; name a program");
}

TEST(Program, ADynamicProgramCanBeFenced) {
  EXPECT_EQ(why(in_tree("programs/plain")), "");
  EXPECT_EQ(why("/bin/true"), "");
  EXPECT_EQ(why("sh"), "");
}

TEST(Program, AStaticOneCannot) {
  EXPECT_EQ(why(in_tree("programs/static")), "it is statically linked, so nothing can be preloaded into it");
  EXPECT_EQ(why(in_tree("programs/static_pie")),
            "it is statically linked, so nothing can be preloaded into it");
}

TEST(Program, TheLoaderItselfCan) {
  const char* loader = "/lib64/ld-linux-x86-64.so.2";
  if (::access(loader, X_OK) != 0) GTEST_SKIP() << "no " << loader;
  EXPECT_EQ(why(loader), "");
}

TEST(Program, AScriptIsAsGoodAsItsInterpreter) {
  const Scratch scratch;
  EXPECT_EQ(why(scratch.file("a", "#!/bin/sh\necho\n", 0755)), "");
  EXPECT_EQ(why(scratch.file("b", "#! \t" + in_tree("programs/static") + " \t -x y\n", 0755)),
            in_tree("programs/static") + " is statically linked, so nothing can be preloaded into it");
  EXPECT_EQ(why(scratch.file("c", "echo no first line\n", 0755)), "");
  EXPECT_EQ(why(scratch.file("d", "", 0755)), "");
}

TEST(Program, AFirstLineThatNamesNothingIsTheShells) {
  const Scratch scratch;
  for (const std::string& line : {std::string("#!\n"), std::string("#! \t\n"), std::string("#!"),
                                  "#!/" + std::string(300, 'x') + '\n'}) {
    const auto program = find_program({scratch.file("script", line, 0755)}, Environment(), "");
    ASSERT_TRUE(program) << line;
    EXPECT_EQ(program->image, "/bin/sh") << line;
    EXPECT_FALSE(program->unfenceable) << line;
  }
}

TEST(Program, AnInterpreterThatCannotStartIsARefusal) {
  const Scratch scratch;
  const std::string missing = scratch.file("missing", "#!/nonexistent/x -y\n", 0755);
  EXPECT_EQ(refusal(missing),
            "126 " + missing +
                ": its interpreter /nonexistent/x doesn't exist; install it, or correct the "
                "first line");
  const std::string outer = scratch.file("outer", "#!" + missing + "\n", 0755);
  EXPECT_EQ(refusal(outer), "126 " + outer +
                                ": its interpreter /nonexistent/x doesn't exist; install it, or correct the "
                                "first line");
  const std::string windows = scratch.file("windows", "#!/bin/sh\r\necho\r\n", 0755);
  EXPECT_EQ(refusal(windows), "126 " + windows +
                                  ": its interpreter /bin/sh\r doesn't exist; save it without carriage "
                                  "returns at the ends of its lines");
  const std::string data = scratch.file("data", "text", 0644);
  const std::string plain = scratch.file("plain", "#!" + data + "\n", 0755);
  EXPECT_EQ(refusal(plain),
            "126 " + plain + ": its interpreter " + data + " is not executable; correct the first line");
  const std::string directory = scratch.file("directory", "#!/usr\n", 0755);
  EXPECT_EQ(refusal(directory),
            "126 " + directory + ": its interpreter /usr is a directory; correct the first line");
}

TEST(Program, ALoaderThatIsMissingIsARefusal) {
  const Scratch scratch;
  std::string elf = content_of(in_tree("programs/plain"));
  const std::size_t at = elf.find("/ld-linux");
  ASSERT_NE(at, std::string::npos);
  elf.replace(at, 9, "/ld-other");
  const std::string file = scratch.file("orphan", elf, 0755);
  EXPECT_EQ(refusal(file), "126 " + file +
                               ": its loader /lib64/ld-other-x86-64.so.2 doesn't exist; use a build for this "
                               "system");
}

TEST(Program, EnvInAFirstLineIsFollowed) {
  const Scratch scratch;
  const std::vector<std::string> path{"PATH=" + in_tree("programs") + ":/usr/bin:/bin"};
  const std::string is_static =
      in_tree("programs/static") + " is statically linked, so nothing can be preloaded into it";
  EXPECT_EQ(why(scratch.file("a", "#!/usr/bin/env static\n", 0755), path), is_static);
  EXPECT_EQ(why(scratch.file("b", "#!/usr/bin/env -S A=1 static -x\n", 0755), path), is_static);
  EXPECT_EQ(why(scratch.file("c", "#!/usr/bin/env plain\n", 0755), path), "");
  EXPECT_EQ(why(scratch.file("d", "#!/usr/bin/env -S -i plain\n", 0755), path),
            "its first line starts it through env without the environment");
  EXPECT_EQ(why(scratch.file("e", "#!/usr/bin/env -S -u LD_PRELOAD plain\n", 0755), path),
            "its first line starts it through env without the environment");
}

TEST(Program, ScriptsThatLeadInACircleEnd) {
  const Scratch scratch;
  const std::string loop = scratch.path() + "/loop";
  EXPECT_EQ(refusal(scratch.file("loop", "#!" + loop + "\n", 0755)),
            "126 " + loop + ": its interpreters are scripts that lead to no program; look at its first line");
}

TEST(Program, AForeignOneCannotBeFenced) {
  const Scratch scratch;
  std::string elf = content_of(in_tree("programs/plain"));
  ASSERT_GT(elf.size(), 64u);
  elf[4] = 1;   // ELFCLASS32
  elf[18] = 3;  // EM_386
  elf[19] = 0;
  const auto program = find_program({scratch.file("foreign", elf, 0755)}, Environment(), "");
  ASSERT_TRUE(program && program->unfenceable);
  EXPECT_EQ(program->unfenceable->why.substr(0, 60),
            "it is a program for 32-bit x86, and libgpufence.so is for 64");
  EXPECT_TRUE(program->unfenceable->preload_harms);
}

TEST(Program, OneForMuslCannotBeFenced) {
  const Scratch scratch;
  std::string elf = content_of(in_tree("programs/plain"));
  // The loader must exist, by a name that is no longer than that of glibc's.
  const std::string genuine = "/lib64/ld-linux-x86-64.so.2";
  const std::size_t at = elf.find(genuine + '\0');
  ASSERT_NE(at, std::string::npos);
  std::string loader = "/tmp/ld-musl-" + std::to_string(::getpid());
  ASSERT_EQ(::symlink(genuine.c_str(), loader.c_str()), 0);
  std::string padded = loader;
  padded.resize(genuine.size(), '\0');
  elf.replace(at, padded.size(), padded);
  const auto program = find_program({scratch.file("musl", elf, 0755)}, Environment(), "");
  ::unlink(loader.c_str());
  ASSERT_TRUE(program && program->unfenceable);
  EXPECT_EQ(program->unfenceable->why, "it is a program for musl, and libgpufence.so is for glibc");
  EXPECT_TRUE(program->unfenceable->preload_harms);
}

TEST(Program, LaunchersThatLeaveTheFenceAreKnown) {
  const Scratch scratch;
  for (const char* name :
       {"docker", "podman", "kubectl", "srun", "sbatch", "ssh", "sudo", "apptainer", "systemd-run", "mpirun"})
    EXPECT_EQ(why(scratch.file(name, "#!/bin/sh\n", 0755)),
              "it starts its program elsewhere, where the fence doesn't reach")
        << name;
}

TEST(Program, ItsSanitizerIsNamed) {
  const auto program = find_program({in_tree("programs/sanitized")}, Environment(), "");
  ASSERT_TRUE(program);
  EXPECT_EQ(program->sanitizer, "libasan.so.99");
  EXPECT_EQ(find_program({in_tree("programs/plain")}, Environment(), "")->sanitizer, "");
}

TEST(Program, AnRpathToARuntimeCannotBeSimulated) {
  const std::string simulation = in_tree("genuine");
  // The directory that the path leads to is itself the simulation: fine.
  EXPECT_FALSE(find_program({in_tree("programs/rpath")}, Environment(), simulation)->unsimulable);
  const Scratch other;
  (void)other.file("libcudart.so.13", "another one");
  const auto program = find_program({in_tree("programs/rpath")}, Environment(), other.path());
  ASSERT_TRUE(program && program->unsimulable);
  EXPECT_EQ(program->unsimulable->why, "its DT_RPATH leads to NVIDIA's own libcudart.so.13 in " + simulation);
  const Scratch empty;
  EXPECT_EQ(find_program({in_tree("programs/rpath")}, Environment(), empty.path())->unsimulable->why,
            "it needs libcudart.so.13, which the simulated machine doesn't have");
}

class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content) : descriptor_(::memfd_create("elf", MFD_CLOEXEC)) {
    write(0, content);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  void write(std::size_t at, const std::string& content) const {
    ASSERT_EQ(::pwrite(descriptor_, content.data(), content.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(content.size()));
  }
  void truncate(std::size_t size) const { ASSERT_EQ(::ftruncate(descriptor_, static_cast<off_t>(size)), 0); }
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

TEST(Elf, CutOffAnywhereItIsAnAnswer) {
  const std::string content = content_of(in_tree("programs/sanitized"));
  const MemoryFile file(content);
  const auto whole = read_elf(file.get());
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->needed.front(), "libasan.so.99");
  std::size_t damaged = 0;
  for (std::size_t size = content.size(); size-- > 0;) {
    file.truncate(size);
    const auto elf = read_elf(file.get());
    (void)read_sections(file.get());
    if (!elf) ++damaged;
    if (size < 64) {
      EXPECT_FALSE(elf) << size;
    }
  }
  EXPECT_GT(damaged, 1000u);
}

TEST(Elf, KnowsWhetherItIsAllThere) {
  const std::string content = content_of(in_tree("lib/libgpufence.so"));
  const MemoryFile file(content);
  const auto whole = read_elf(file.get());
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->complete());
  EXPECT_TRUE(whole->shared_object);
  EXPECT_EQ(whole->soname, "libgpufence.so");
  EXPECT_EQ(whole->extent, content.size());
  for (std::size_t size = content.size() - 1; size >= 64; --size) {
    file.truncate(size);
    const auto elf = read_elf(file.get());
    EXPECT_FALSE(elf && elf->complete()) << size;
    if (!elf) {
      EXPECT_EQ(elf.error(), cut_off(size, content.size()));
    }
  }
}

TEST(Elf, WithAnyByteChangedItIsAnAnswer) {
  const std::string content = content_of(in_tree("programs/sanitized"));
  const MemoryFile file(content);
  // Header, program headers and what follows them; the dynamic section lies further back.
  const auto change = [&](std::size_t from, std::size_t to) {
    for (std::size_t at = from; at < std::min(to, content.size()); ++at) {
      for (const char value : {'\0', '\xff', '\x7f', '\x80'}) {
        file.write(at, std::string(1, value));
        (void)read_elf(file.get());
        (void)read_sections(file.get());
      }
      file.write(at, content.substr(at, 1));
    }
  };
  change(0, 2048);
  change(content.size() - 2048, content.size());  // section headers
  const std::size_t dynamic = content.find(std::string("\1\0\0\0\0\0\0\0", 8), 4096);
  if (dynamic != std::string::npos) change(dynamic - 64, dynamic + 600);
  EXPECT_TRUE(read_elf(file.get()));
}

TEST(Elf, SectionsAreFoundByNameAndReadWhole) {
  const std::string content = content_of(in_tree("programs/sanitized"));
  const MemoryFile file(content);
  const auto sections = read_sections(file.get());
  ASSERT_TRUE(sections);
  const auto interp = std::find_if(sections->begin(), sections->end(),
                                   [](const ElfSection& section) { return section.name == ".interp"; });
  ASSERT_NE(interp, sections->end());
  const std::string loader = read_elf(file.get())->interpreter;
  EXPECT_EQ(read_bytes(file.get(), interp->offset, interp->size), loader + '\0');
  EXPECT_EQ(read_bytes(file.get(), content.size() - 1, 2), std::nullopt);
  EXPECT_EQ(read_bytes(file.get(), ~std::uint64_t{0}, 2), std::nullopt);
  EXPECT_EQ(read_sections(MemoryFile("\177ELF").get()).error(), "it is no ELF file of this machine");
}

TEST(Elf, WhatIsNoneIsSaidToBeNone) {
  EXPECT_EQ(read_elf(MemoryFile("").get()).error(), "it is no ELF file");
  EXPECT_EQ(read_elf(MemoryFile("\177ELF").get()).error(), "it is no ELF file");
  EXPECT_EQ(read_elf(MemoryFile(std::string(1 << 16, '\0')).get()).error(), "it is no ELF file");
}

}  // namespace
}  // namespace gpufence::command
