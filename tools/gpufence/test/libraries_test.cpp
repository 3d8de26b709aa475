// Which library ld.so would take; and that no cache can harm the reading.
#include "tools/gpufence/libraries.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::in_tree;

struct CacheEntry {
  std::string name, path;
  std::uint64_t hardware = 0;
};

std::string cache_of(const std::vector<CacheEntry>& entries) {
  const auto number = [](auto value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  };
  std::string strings, table;
  const auto base = static_cast<std::uint32_t>(48 + 24 * entries.size());
  for (const CacheEntry& entry : entries) {
    table += number(std::int32_t{0x303}) + number(base + static_cast<std::uint32_t>(strings.size()));
    strings += entry.name + '\0';
    table += number(base + static_cast<std::uint32_t>(strings.size())) + number(std::uint32_t{0}) +
             number(entry.hardware);
    strings += entry.path + '\0';
  }
  return "glibc-ld.so.cache1.1" + number(static_cast<std::uint32_t>(entries.size())) +
         number(static_cast<std::uint32_t>(strings.size())) + std::string(20, '\0') + table + strings;
}

TEST(LoaderCache, TellsThePathsOfAName) {
  const std::string cache = cache_of({{"libcudart.so.13", "/a/libcudart.so.13"},
                                      {"libcudart.so.12", "/a/libcudart.so.12"},
                                      {"libcudart.so.13", "/fast/libcudart.so.13", 1ull << 62},
                                      {"libcudart.so.13", "/b/libcudart.so.13"}});
  EXPECT_EQ(in_loader_cache(cache, "libcudart.so.13"),
            (std::vector<std::string>{"/a/libcudart.so.13", "/b/libcudart.so.13"}));
  EXPECT_EQ(in_loader_cache("old format\0" + cache, "libcudart.so.12"),
            (std::vector<std::string>{"/a/libcudart.so.12"}));
  EXPECT_EQ(in_loader_cache(cache, "libcuda.so.1"), (std::vector<std::string>{}));
}

TEST(LoaderCache, ThatIsDamagedIsAnAnswer) {
  const std::string whole = cache_of({{"liba.so", "/a/liba.so"}, {"libb.so", "/b/libb.so"}});
  for (std::size_t size = 0; size < whole.size(); ++size)
    (void)in_loader_cache(whole.substr(0, size), "libb.so");
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    std::string changed = whole;
    for (int bytes = 0; bytes < 3; ++bytes) changed[random() % changed.size()] = static_cast<char>(random());
    EXPECT_LE(in_loader_cache(changed, "libb.so").size(), 2u);
  }
}

Library first_of(const std::string& program, const std::vector<std::string>& environment) {
  const int file = ::open(program.c_str(), O_RDONLY | O_CLOEXEC);
  const auto elf = read_elf(file);
  ::close(file);
  EXPECT_TRUE(elf) << program;
  const auto libraries = libraries_of(program, *elf, Environment(environment));
  EXPECT_FALSE(libraries.empty());
  return libraries.front();
}

TEST(Libraries, OfAnRpathComeBeforeTheEnvironments) {
  const Library library = first_of(in_tree("programs/rpath"), {"LD_LIBRARY_PATH=" + in_tree("sim")});
  EXPECT_EQ(library.name, "libcudart.so.13");
  EXPECT_EQ(library.path, in_tree("genuine/libcudart.so.13"));
  EXPECT_EQ(library.found_by, "DT_RPATH");
  EXPECT_EQ(library.needed_by, in_tree("programs/rpath"));
}

TEST(Libraries, OfARunpathComeAfterTheEnvironments) {
  // The build leaves a RUNPATH in its own programs.
  EXPECT_EQ(first_of(in_tree("programs/sanitized"), {}).found_by, "DT_RUNPATH");
  EXPECT_EQ(first_of(in_tree("programs/sanitized"), {"LD_LIBRARY_PATH=/nonexistent:" + in_tree("standin")})
                .found_by,
            "LD_LIBRARY_PATH");
}

TEST(Libraries, ThatAreNowhereHaveNoPath) {
  Elf elf;
  elf.needed = {"libno-such-library.so.7", "/nonexistent/libx.so"};
  const auto libraries = libraries_of("/bin/program", elf, Environment());
  ASSERT_EQ(libraries.size(), 2u);
  EXPECT_EQ(libraries[0].path, "");
  EXPECT_EQ(libraries[1].path, "");
}

}  // namespace
}  // namespace gpufence::command
