// The reader of fatbins, held against what nvcc wrote: every packing, several GPUs, no PTX, wrappers of both
// versions, and damage.
#include "fatbin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace gpufence::sim {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes file(const char* name) {
  std::ifstream in(std::string(GPUFENCE_FATBINS "/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Reach within(const Bytes& bytes) {
  const auto base = reinterpret_cast<uintptr_t>(bytes.data());
  return [base, size = bytes.size()](uintptr_t address) -> size_t {
    return address - base < size ? size - (address - base) : 0;
  };
}

struct Wrapper {
  uint32_t magic = 0x466243b1, version = 1;
  const void* fatbin = nullptr;
  const void* list = nullptr;
};

std::vector<uint32_t> computes(const Binary& binary) {
  std::vector<uint32_t> out;
  for (const PtxImage& image : binary.ptx) out.push_back(image.compute);
  std::sort(out.begin(), out.end());
  return out;
}

class EveryPacking : public testing::TestWithParam<std::pair<const char*, Packing>> {};

TEST_P(EveryPacking, GivesTheSamePtx) {
  const Bytes bytes = file(GetParam().first);
  const auto code = read_code(bytes.data(), within(bytes));
  ASSERT_TRUE(code) << code.error();
  ASSERT_EQ(code->members.size(), 1u);
  ASSERT_EQ(computes(code->members[0]), (std::vector<uint32_t>{75}));
  EXPECT_EQ(code->members[0].ptx[0].packing, GetParam().second);
  const auto text = code->members[0].ptx[0].text();
  ASSERT_TRUE(text) << text.error();
  EXPECT_NE(text->find(".visible .entry first("), std::string::npos);
  EXPECT_NE(text->find(".visible .entry second("), std::string::npos);
  EXPECT_EQ(text->find('\0'), std::string::npos);
  EXPECT_EQ(text->find_last_of('}'), text->find_last_not_of("\r\n \t"));
}

INSTANTIATE_TEST_SUITE_P(Fatbin, EveryPacking,
                         testing::Values(std::pair{"default.fatbin", Packing::zstd},
                                         std::pair{"speed.fatbin", Packing::lz4},
                                         std::pair{"size.fatbin", Packing::zstd},
                                         std::pair{"none.fatbin", Packing::plain}));

TEST(Fatbin, OfSeveralGpusGivesEachTheBestItMayRun) {
  const Bytes bytes = file("several.fatbin");
  const auto code = read_code(bytes.data(), within(bytes));
  ASSERT_TRUE(code) << code.error();
  const Binary& binary = code->members.at(0);
  EXPECT_EQ(computes(binary), (std::vector<uint32_t>{75, 80, 90}));
  EXPECT_EQ(binary.cubins, (std::vector<uint32_t>{86}));
  auto best = [&](uint32_t capability) {
    const auto fit = candidates(binary, capability);
    return fit.empty() ? 0 : fit.front()->compute;
  };
  EXPECT_EQ(best(70), 0u);
  EXPECT_EQ(best(75), 75u);
  EXPECT_EQ(best(80), 80u);
  EXPECT_EQ(best(89), 80u);
  EXPECT_EQ(best(90), 90u);
  EXPECT_EQ(best(120), 90u);
  EXPECT_EQ(why_none(binary, 70),
            "kernel module has no PTX for compute capability 7.0: only compute_75, compute_80, compute_90, "
            "and code "
            "for sm_86; compile with -gencode arch=compute_70,code=compute_70");
}

TEST(Fatbin, WithoutPtxSaysForWhichGpusItIs) {
  const Bytes bytes = file("cubin.fatbin");
  const auto code = read_code(bytes.data(), within(bytes));
  ASSERT_TRUE(code) << code.error();
  const Binary& binary = code->members.at(0);
  EXPECT_TRUE(candidates(binary, 90).empty());
  EXPECT_EQ(why_none(binary, 90),
            "kernel module has no PTX: only code for sm_80; compile with -gencode "
            "arch=compute_90,code=compute_90");
}

TEST(Cubin, IsKnownByItsArchitecture) {
  const Bytes bytes = file("plain.cubin");
  const auto code = read_code(bytes.data(), within(bytes));
  ASSERT_TRUE(code) << code.error();
  EXPECT_EQ(code->members.at(0).cubins, (std::vector<uint32_t>{80}));
}

TEST(PtxText, IsTakenAsItIs) {
  const char text[] = "\n// made by hand\n.version 8.0\n.target sm_80\n.address_size 64\n";
  const auto code = read_code(text, process_memory());
  ASSERT_TRUE(code) << code.error();
  ASSERT_TRUE(code->members.at(0).is_text);
  EXPECT_EQ(code->members[0].ptx.at(0).text().value(), text);
}

TEST(Target, OfOneArchitectureOrFamilyFitsNoOther) {
  EXPECT_TRUE(target_fits(".version 8.0\n.target sm_80\n", 80));
  EXPECT_TRUE(target_fits(".version 8.0\n.target sm_80\n", 120));
  EXPECT_FALSE(target_fits(".version 8.0\n.target sm_80\n", 75));
  EXPECT_TRUE(target_fits(".target sm_90a, texmode_unified\n", 90));
  EXPECT_FALSE(target_fits(".target sm_90a\n", 100));
  EXPECT_TRUE(target_fits("\t.target sm_100f\n", 103));
  EXPECT_FALSE(target_fits(".target sm_100f\n", 120));
  EXPECT_TRUE(target_fits("// .target sm_120\n.target sm_75\n", 75));
}

TEST(Wrapper, PointsToOneFatbinOrToMany) {
  const Bytes one = file("default.fatbin"), two = file("speed.fatbin");
  Wrapper wrapper;
  wrapper.fatbin = one.data();
  auto code = read_code(&wrapper, process_memory());
  ASSERT_TRUE(code) << code.error();
  EXPECT_EQ(code->members.size(), 1u);

  const void* list[] = {one.data(), two.data(), nullptr};
  wrapper.version = 2;
  wrapper.list = list;
  code = read_code(&wrapper, process_memory());
  ASSERT_TRUE(code) << code.error();
  ASSERT_EQ(code->members.size(), 2u);
  EXPECT_EQ(code->members[0].ptx[0].packing, Packing::zstd);
  EXPECT_EQ(code->members[1].ptx[0].packing, Packing::lz4);
}

TEST(Wrapper, ThatPointsNowhereIsAnError) {
  Wrapper wrapper;
  EXPECT_FALSE(read_code(&wrapper, process_memory()));
  wrapper.fatbin = reinterpret_cast<const void*>(uintptr_t{0x10});
  EXPECT_FALSE(read_code(&wrapper, process_memory()));
  wrapper.version = 2;
  wrapper.list = reinterpret_cast<const void*>(uintptr_t{0x10});
  EXPECT_FALSE(read_code(&wrapper, process_memory()));
  wrapper.version = 3;
  EXPECT_FALSE(read_code(&wrapper, process_memory()));
}

TEST(LinkedCode, ReadsBackAsItsParts) {
  const Bytes one = file("several.fatbin");
  CodeImage parts;
  parts.members.push_back(read_code(one.data(), within(one)).value().members[0]);
  parts.members.push_back(read_code(".version 8.0\n.target sm_80\n", process_memory()).value().members[0]);
  const Bytes made = write_code(parts);
  const auto back = read_code(made.data(), within(made));
  ASSERT_TRUE(back) << back.error();
  ASSERT_EQ(back->members.size(), 2u);
  EXPECT_EQ(computes(back->members[0]), (std::vector<uint32_t>{75, 80, 90}));
  EXPECT_EQ(back->members[0].ptx[0].text().value(), parts.members[0].ptx[0].text().value());
  EXPECT_TRUE(back->members[1].is_text);
  EXPECT_EQ(back->members[1].ptx.at(0).text().value(), ".version 8.0\n.target sm_80\n");
}

// Each is in a buffer of exactly its size, so that a sanitizer sees a read too far.
TEST(DamagedFatbin, CutAnywhereIsAnErrorAndNoCrash) {
  const Bytes whole = file("several.fatbin");
  ASSERT_GT(whole.size(), 1000u);
  for (size_t size = 0; size < whole.size(); size += size < 400 ? 1 : 97) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(read_code(cut.data(), within(cut))) << size;
  }
}

TEST(DamagedFatbin, WithAnyByteChangedIsReadWithinBounds) {
  for (const char* name : {"default.fatbin", "speed.fatbin", "none.fatbin"}) {
    const Bytes whole = file(name);
    // Beyond that it is what the packings themselves check.
    for (size_t at = 0; at < std::min<size_t>(whole.size(), 4096); at += at < 256 ? 1 : 41) {
      for (const uint8_t flip : {0x01, 0x80, 0xff}) {
        Bytes changed = whole;
        changed[at] ^= flip;
        const auto code = read_code(changed.data(), within(changed));
        if (!code) continue;
        for (const Binary& binary : code->members)
          for (const PtxImage* image : candidates(binary, 120)) (void)image->text();
      }
    }
  }
}

}  // namespace
}  // namespace gpufence::sim
