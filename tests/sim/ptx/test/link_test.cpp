// Modules of separate compilation: symbols that meet, and those that do not.
#include "grid.h"

namespace gpufence::sim::ptx {
namespace {

std::shared_ptr<const Module> module_of(const std::string& text) {
  auto parsed = parse(".version 8.5\n.target sm_75\n.address_size 64\n" + text);
  if (!parsed) ADD_FAILURE() << parsed.error().what();
  return parsed ? *parsed : nullptr;
}

const char* const kMain =
    ".extern .global .align 4 .u32 counter;\n.extern .func (.param .b32 r) twice(.param .b32 a);\n.global "
    ".align 4 .u32 local = 3;\n.shared .align 4 .b8 s[16];\n"
    ".visible .entry k(.param .u64 p) { .reg .b32 %r<6>; .reg .b64 %rd<4>; ld.param.u64 %rd1, [p]; "
    "ld.global.u32 %r1, [counter]; ld.global.u32 %r2, [local]; add.u32 %r1, %r1, %r2;\n"
    "{ .param .b32 x; .param .b32 z; st.param.b32 [x], %r1; call (z), twice, (x); ld.param.b32 %r3, [z]; } "
    "st.shared.u32 [s+12], %r3; ld.shared.u32 %r4, [s+12]; st.global.u32 [%rd1], %r4; ret; }\n";
const char* const kOther =
    ".visible .global .align 4 .u32 counter = 10;\n.global .align 4 .u32 local = 1000;\n.shared .align 4 .b8 "
    "s[8];\n"
    ".visible .func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r<4>; ld.param.u32 %r1, [a]; shl.b32 "
    "%r1, %r1, 1; ld.global.u32 %r2, [local]; add.u32 %r1, %r1, %r2; st.shared.u32 [s], %r1; st.param.b32 "
    "[r], %r1; ret; }\n";

TEST(Link, ExternalsMeetAndLocalsStayApart) {
  for (const bool swapped : {false, true}) {
    const auto a = module_of(kMain), b = module_of(kOther);
    auto linked = swapped ? link({b, a}) : link({a, b});
    ASSERT_TRUE(linked) << linked.error().what();
    std::vector<uint32_t> out(2);
    Grid grid(*linked);
    grid.array(out).ok("k", 1, 1);
    EXPECT_EQ(out[0], 2 * 13 + 1000U);
    EXPECT_EQ((*linked)->function("k")->static_shared_bytes, 24U);
    EXPECT_EQ((*linked)->function("k")->unsupported, "");
  }
}

TEST(Link, WhatIsNowhereDefinedIsTold) {
  const auto alone = module_of(kMain);
  EXPECT_NE(alone->function("k")->unsupported.find("undefined function twice"), std::string::npos);
  const auto linked = link({alone});
  ASSERT_FALSE(linked);
  EXPECT_EQ(linked.error().kind, Error::Kind::undefined);
  EXPECT_NE(linked.error().text.find("counter"), std::string::npos);
}

TEST(Link, TwoDefinitionsClashUnlessOneIsWeak) {
  const auto strong = module_of(kOther), again = module_of(".visible .global .align 4 .u32 counter = 11;");
  EXPECT_FALSE(link({strong, again}));
  const auto weak = module_of(
      ".weak .func (.param .b32 r) twice(.param .b32 a) { st.param.b32 [r], 0; ret; }\n.weak .global .align "
      "4 .u32 counter = 5;");
  for (const auto& modules :
       {std::vector{weak, module_of(kMain), strong}, std::vector{strong, module_of(kMain), weak}}) {
    auto linked = link(modules);
    ASSERT_TRUE(linked) << linked.error().what();
    std::vector<uint32_t> out(2);
    Grid grid(*linked);
    grid.array(out).ok("k", 1, 1);
    EXPECT_EQ(out[0], 1026U);
  }
  auto only_weak = link({weak, module_of(kMain), weak});
  ASSERT_TRUE(only_weak);
  std::vector<uint32_t> out(2, 9);
  Grid grid(*only_weak);
  grid.array(out).ok("k", 1, 1);
  EXPECT_EQ(out[0], 0U);
}

TEST(Link, AddressesInDataFollow) {
  const auto a = module_of(
      ".extern .global .align 4 .u32 target;\n.extern .func f();\n.visible .global .u64 pointers[2] = "
      "{target, f};\n.visible .entry k() { ret; }");
  const auto b = module_of(
      ".global .u32 first = 1;\n.func own() { ret; }\n.visible .func f() { ret; }\n.visible .global .align 4 "
      ".u32 target = 5;");
  auto linked = link({b, a});
  ASSERT_TRUE(linked) << linked.error().what();
  Grid grid(*linked);
  const auto* pointers = grid.global<uint64_t>("pointers");
  EXPECT_EQ(pointers[0], reinterpret_cast<uint64_t>(grid.global<uint32_t>("target")));
  EXPECT_EQ(pointers[1], function_address(1));
  EXPECT_EQ((*linked)->functions[1].name, "f");
}

}  // namespace
}  // namespace gpufence::sim::ptx
