// GPU code in programs, read from bytes made by hand; and that no bytes can harm the reading.
#include "tools/gpufence/gpu_code.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>

namespace gpufence::command {
namespace {

class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content) : descriptor_(::memfd_create("code", MFD_CLOEXEC)) {
    EXPECT_EQ(::pwrite(descriptor_, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

template <class T>
std::string number(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string entry(std::uint16_t kind, std::uint32_t sm, std::uint64_t flags, std::uint32_t packed,
                  std::uint64_t unpacked, std::uint64_t payload, std::uint32_t header = 64) {
  std::string bytes = number(kind) + number<std::uint16_t>(0x0101) + number(header) + number(payload) +
                      number(packed) + number<std::uint32_t>(0) + number<std::uint32_t>(0) + number(sm) +
                      number<std::uint64_t>(0) + number(flags) + number<std::uint64_t>(0) + number(unpacked);
  return bytes + std::string(static_cast<std::size_t>(header) - 64 + static_cast<std::size_t>(payload), 'x');
}

std::string fatbin(const std::string& entries) {
  return number<std::uint32_t>(0xba55ed50) + number<std::uint16_t>(1) + number<std::uint16_t>(16) +
         number<std::uint64_t>(entries.size()) + entries;
}

EmbeddedCode read(const std::string& bytes) {
  const MemoryFile file(bytes);
  EmbeddedCode code;
  read_fatbins(file.get(), 0, bytes.size(), code);
  return code;
}

using Kind = GpuCode::Kind;

// Two fatbins as nvcc makes them, with the padding that aligns the second.
std::string two_fatbins() {
  return fatbin(entry(2, 75, 0x11, 0, 0, 1448)) + std::string(8, '\0') +
         fatbin(entry(2, 80, 0x2011, 831, 3112, 832) + entry(1, 75, 0x8011, 198, 268, 200, 80) +
                entry(1, 90, 0x11, 0, 0, 624, 80) + entry(8, 75, 0, 0, 0, 8));
}

TEST(GpuCode, IsReadInTheOrderOfTheFile) {
  const EmbeddedCode code = read(two_fatbins());
  EXPECT_EQ(code.problem, "");
  EXPECT_EQ(code.entries, (std::vector<GpuCode>{{Kind::cubin, 75, "plain", 1448, 1448},
                                                {Kind::cubin, 80, "lz4", 831, 3112},
                                                {Kind::ptx, 75, "zstd", 198, 268},
                                                {Kind::ptx, 90, "plain", 624, 624},
                                                {Kind::other, 75, "plain", 8, 8}}));
}

TEST(GpuCode, ThatIsDamagedSaysWhereAndKeepsWhatCameBefore) {
  const std::string good = fatbin(entry(1, 75, 0, 0, 0, 8));
  EXPECT_EQ(read("").problem, "");
  EXPECT_EQ(read(std::string(16, 'x')).problem, "something else stands where a fatbin should begin");
  EXPECT_EQ(read(good + std::string(16, 'x')).problem, "something else stands where a fatbin should begin");
  EXPECT_EQ(read(good + std::string(16, 'x')).entries.size(), 1u);
  EXPECT_EQ(read(good.substr(0, good.size() - 1)).problem, "a fatbin is larger than its section");
  EXPECT_EQ(read(fatbin(std::string(63, '\0'))).problem, "a fatbin entry ends in its header");
  std::string huge = good;
  huge.replace(24, 8, number<std::uint64_t>(~0ull));
  EXPECT_EQ(read(huge).problem, "a fatbin entry is larger than its fatbin");
  std::string none = good;
  none.replace(20, 4, number<std::uint32_t>(0));
  EXPECT_EQ(read(none).problem, "a fatbin entry is larger than its fatbin");
  // Zeros without end are no padding.
  EXPECT_EQ(read(std::string(1 << 20, '\0')).problem, "something else stands where a fatbin should begin");
}

TEST(GpuCode, CutOffOrChangedAnywhereItIsAnAnswer) {
  const std::string whole = two_fatbins();
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_LE(read(whole.substr(0, size)).entries.size(), 5u) << size;
  // A section that reaches past the end of its file.
  const MemoryFile file(whole.substr(0, 100));
  EmbeddedCode code;
  read_fatbins(file.get(), 0, whole.size(), code);
  EXPECT_NE(code.problem, "");
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    std::string changed = whole;
    for (int bytes = 0; bytes < 3; ++bytes) changed[random() % changed.size()] = static_cast<char>(random());
    EXPECT_LE(read(changed).entries.size(), changed.size() / 64);
  }
}

TEST(GpuCode, IsInNoFileOfAnotherKind) {
  EXPECT_EQ(embedded_code(MemoryFile("").get()).entries.size(), 0u);
  EXPECT_EQ(embedded_code(MemoryFile(two_fatbins()).get()).entries.size(), 0u);
}

}  // namespace
}  // namespace gpufence::command
