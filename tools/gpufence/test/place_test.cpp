// A gate that ld.so would pass over is found out before anything relies on it.
#include "tools/gpufence/place.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tools/gpufence/elf.h"
#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::Ended;
using testing::in_tree;
using testing::program;
using testing::Scratch;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// An installation of its own, whose libraries can be spoilt.
class Installation {
 public:
  Installation() {
    for (const char* directory : {"/bin", "/lib"}) std::filesystem::create_directory(root() + directory);
    std::filesystem::copy_file(in_tree("bin/gpufence"), root() + "/bin/gpufence");
    for (const char* library : {"libgpufence.so", "libgpufence-core.so"})
      std::filesystem::copy_file(in_tree(std::string("lib/") + library), root() + "/lib/" + library);
  }
  [[nodiscard]] const std::string& root() const { return scratch_.path(); }
  [[nodiscard]] std::string library(const std::string& name) const { return root() + "/lib/" + name; }
  [[nodiscard]] std::string found() const {
    const auto gate = find_gate(root() + "/bin");
    return gate ? *gate : std::to_string(gate.error().status) + ' ' + gate.error().error.text();
  }
  [[nodiscard]] Ended gpufence(std::vector<std::string> words) const {
    words.insert(words.begin(), root() + "/bin/gpufence");
    return testing::spawn(words, {"PATH=/usr/bin:/bin", "LD_LIBRARY_PATH=" + in_tree("standin"),
                                  "ASAN_OPTIONS=detect_leaks=0"});
  }

 private:
  Scratch scratch_;
};

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

TEST(Gate, ASoundOneIsFound) {
  const Installation installation;
  EXPECT_EQ(installation.found(), installation.library("libgpufence.so"));
}

TEST(Gate, OneThatIsCutOffIsNone) {
  for (const char* name : {"libgpufence.so", "libgpufence-core.so"}) {
    const Installation installation;
    const std::string path = installation.library(name);
    const std::string size = std::to_string(std::filesystem::file_size(path));
    std::filesystem::resize_file(path, 5000);
    const std::string why = path + " is damaged: cut off at 5000 of " + size + " bytes";
    EXPECT_EQ(installation.found(),
              "126 " + path + ": is damaged: cut off at 5000 of " + size + " bytes; install gpufence again");
    for (const std::vector<std::string>& asked : {std::vector<std::string>{"-d", "0"}, {"-m", "8GiB"}}) {
      std::vector<std::string> words{"run"};
      words.insert(words.end(), asked.begin(), asked.end());
      words.insert(words.end(), {"--", program("plain"), "hello"});
      const Ended ended = installation.gpufence(words);
      EXPECT_EQ(ended.status, 126);
      EXPECT_EQ(ended.out, "");
      EXPECT_EQ(ended.err, "gpufence: " + program("plain") + ": can't be fenced, which " +
                               (asked[0] == "-d" ? "--devices" : "--gpu-mem") + " needs: " + why +
                               "; install gpufence again\n");
    }
    const Ended bare = installation.gpufence({"run", "--", program("plain"), "--get=LD_PRELOAD"});
    EXPECT_EQ(bare.status, 0);
    EXPECT_EQ(bare.out, "(unset)\n");
    EXPECT_EQ(bare.err,
              "gpufence: " + program("plain") + ": runs unfenced: " + why + "; install gpufence again\n");
    const Ended both = installation.gpufence({"run", "--", program("static"), "hello"});
    EXPECT_EQ(both.out, "hello\n");
    EXPECT_EQ(both.err,
              "gpufence: " + program("static") +
                  ": runs unfenced: it is statically linked, so nothing can be preloaded into it; link "
                  "it dynamically\n");
  }
}

TEST(Gate, WhatLdSoWouldNotLoadIsNone) {
  for (const char* name : {"libgpufence.so", "libgpufence-core.so"}) {
    const Installation installation;
    const std::string path = installation.library(name);
    const std::string content = content_of(path);
    const auto found_with = [&](const std::string& spoilt) {
      write(path, spoilt);
      std::string found = installation.found();
      if (found.find(path) != std::string::npos) found.erase(found.find(path), path.size());
      return found;
    };
    const auto changed = [&](std::size_t at, char to) {
      std::string spoilt = content;
      spoilt[at] = to;
      return spoilt;
    };
    EXPECT_EQ(found_with(""), "126 : is damaged: it is no ELF file; install gpufence again");
    EXPECT_EQ(found_with("x"), "126 : is damaged: it is no ELF file; install gpufence again");
    EXPECT_EQ(found_with(std::string(content.size(), '\0')),
              "126 : is damaged: it is no ELF file; install gpufence again");
    EXPECT_EQ(found_with(changed(18, 3)),
              "126 : is for 64-bit x86, and this machine is " + own_machine() + "; install gpufence again");
    for (const std::size_t at :
         {std::size_t{6}, std::size_t{7}, std::size_t{8}, std::size_t{16}, std::size_t{20}})
      EXPECT_EQ(found_with(changed(at, 9)),
                "126 : is damaged: it is no shared library; install gpufence again")
          << at;
    EXPECT_EQ(found_with(content_of(in_tree("standin/libasan.so.99"))),
              "126 : is another library: it calls itself libasan.so.99; install gpufence again");
    EXPECT_EQ(found_with(content_of(in_tree("programs/plain"))),
              "126 : is another library: it has no name of its own; install gpufence again");

    ::unlink(path.c_str());
    ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0);
    EXPECT_EQ(installation.found(), "126 " + path + ": is no regular file; install gpufence again");
    ::unlink(path.c_str());
    ASSERT_EQ(::mkdir(path.c_str(), 0755), 0);
    EXPECT_EQ(installation.found(), "126 " + path + ": is no regular file; install gpufence again");
    if (::geteuid() == 0) continue;
    ::rmdir(path.c_str());
    write(path, content);
    ::chmod(path.c_str(), 0);
    EXPECT_EQ(installation.found(),
              "126 " + path + ": can't be read (Permission denied); install gpufence again");
  }
}

TEST(Gate, APathThatLdSoTakesApartOrExpandsIsNone) {
  const Scratch scratch;
  for (const char* name : {"a b", "a:b", "$LIB"}) {
    const std::string root = scratch.path() + '/' + name;
    std::filesystem::create_directories(root + "/lib");
    std::filesystem::copy_file(in_tree("lib/libgpufence.so"), root + "/lib/libgpufence.so");
    const auto gate = find_gate(root + "/bin");
    ASSERT_FALSE(gate) << name;
    EXPECT_EQ(gate.error().status, 125);
    EXPECT_EQ(gate.error().error.why, "can't be preloaded from a path with a colon, a blank or a $ in it");
  }
}

}  // namespace
}  // namespace gpufence::command
