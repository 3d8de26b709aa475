// What parse() takes, what it says of the rest, and what a module tells about itself.
#include "grid.h"

namespace gpufence::sim::ptx {
namespace {

const std::string kHead = ".version 8.5\n.target sm_90\n.address_size 64\n";

Error error_of(const std::string& text) {
  auto parsed = parse(kHead + text);
  if (parsed) {
    ADD_FAILURE() << "parsed: " << text;
    return {};
  }
  return parsed.error();
}

TEST(Parse, HeadOfAModule) {
  const auto module = *parse(".version 9.0\n.target sm_75, debug\n.address_size 64\n");
  EXPECT_EQ(module->version_major, 9);
  EXPECT_EQ(module->version_minor, 0);
  EXPECT_EQ(module->target, "sm_75");
  EXPECT_EQ(module->target_sm, 75U);
  EXPECT_EQ((*parse(".version 8.10\n.target sm_120a"))->target_sm, 120U);
  EXPECT_FALSE(parse(""));
  EXPECT_FALSE(
      parse("\x7f"
            "ELF"));
  EXPECT_TRUE(parse(kHead + std::string("\0\0", 2))) << "fatbins pad with NULs";
}

TEST(Parse, ParametersAreLaidOutByNaturalAlignment) {
  const auto module = *parse(
      kHead +
      ".visible .entry k(.param .u8 a, .param .u32 b, .param .u16 c, .param .u64 .ptr .global .align 4 d, "
      ".param .align 16 .b8 e[20], .param .f32 f) .maxntid 128, 2, 1 .minnctapersm 4 .reqntid 64 { ret; }");
  const Function& k = *module->function("k");
  ASSERT_EQ(k.params.size(), 6U);
  const uint32_t offsets[] = {0, 4, 8, 16, 32, 52}, sizes[] = {1, 4, 2, 8, 20, 4};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(k.params[i].offset, offsets[i]);
    EXPECT_EQ(k.params[i].size, sizes[i]);
  }
  EXPECT_EQ(k.params[4].name, "e");
  EXPECT_EQ(k.param_bytes, 56U);
  EXPECT_EQ(k.max_threads, (std::array<uint32_t, 3>{128, 2, 1}));
  EXPECT_EQ(k.required_threads, (std::array<uint32_t, 3>{64, 1, 1}));
  EXPECT_EQ(k.min_blocks_per_multiprocessor, 4U);
  EXPECT_TRUE(k.is_entry);
  EXPECT_EQ(module->function("none"), nullptr);
}

TEST(Parse, VariablesAndTheirFirstValues) {
  const auto module = *parse(kHead +
                             ".global .align 4 .u32 a = 7;\n.const .align 8 .f64 b[3] = {1.5, "
                             "0d4000000000000000, -3};\n.visible .global .b8 c[8] = {1, 2, {3, 4}};\n"
                             ".global .u64 d[2] = {generic(c)+2, f};\n.global .v4 .f32 e;\n.global .align 1 "
                             ".b8 g[16] = {0xFF(c), 0xFF00(c), 5};\n.func f() { ret; }\n.global .s16 h[] = "
                             "{-1, 2};\n.global .attribute(.managed) .align 4 .u32 m;\n.global .texref t;");
  const auto& g = module->globals;
  ASSERT_EQ(g.size(), 9U);
  EXPECT_EQ(g[0].initial, (std::vector<uint8_t>{7, 0, 0, 0}));
  EXPECT_EQ(g[1].space, Space::constant);
  EXPECT_EQ(g[1].size, 24U);
  EXPECT_EQ(module->const_bytes, 24U);
  EXPECT_EQ(g[2].linkage, Linkage::visible);
  EXPECT_EQ(g[4].size, 16U);
  EXPECT_EQ(g[4].align, 16U);
  EXPECT_EQ(g[6].size, 4U);
  EXPECT_TRUE(g[7].is_managed);
  EXPECT_TRUE(g[8].is_texture);
  const std::vector<uint64_t> at{0, 0, 0x1122334455667788, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(module->image(1, at), (std::vector<uint8_t>{0, 0, 0, 0,    0, 0, 0xf8, 0x3f, 0, 0, 0, 0,
                                                        0, 0, 0, 0x40, 0, 0, 0,    0,    0, 0, 8, 0xc0}));
  EXPECT_EQ(module->image(2, at), (std::vector<uint8_t>{1, 2, 3, 4, 0, 0, 0, 0}));
  const auto pointers = module->image(3, at);
  EXPECT_EQ(std::vector<uint8_t>(pointers.begin(), pointers.begin() + 8),
            (std::vector<uint8_t>{0x8a, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}));
  uint64_t function = 0;
  std::memcpy(&function, pointers.data() + 8, 8);
  EXPECT_EQ(function, function_address(0));
  EXPECT_EQ(module->image(5, at),
            (std::vector<uint8_t>{0x88, 0x77, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(module->image(6, at), (std::vector<uint8_t>{0xff, 0xff, 2, 0}));
}

TEST(Parse, WhatTheInterpreterCannotDoMarksItsFunctionsOnly) {
  const auto module = *parse(kHead +
                             ".func f() { .reg .b32 %r<9>; wmma.load.a.sync.aligned.row.m16n16k16.f16 "
                             "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%r1]; ret; }\n"
                             ".entry bad() { call f; ret; }\n.entry good() { ret; }\n.entry odd() { .reg "
                             ".b32 %r<3>; add.wide.u32 %r1, %r1, %r2; }");
  EXPECT_EQ(module->function("good")->unsupported, "");
  EXPECT_EQ(module->function("bad")->unsupported,
            "unsupported instruction wmma.load.a.sync.aligned.row.m16n16k16.f16 in f, line 4 of the PTX");
  EXPECT_NE(module->function("odd")->unsupported.find("add.wide.u32"), std::string::npos);
  EXPECT_FALSE(Grid(module).run("good", 1, 32));
  Grid bad(module);
  const Fault fault = bad.run("bad", 1, 32);
  EXPECT_EQ(fault.kind, Fault::Kind::unsupported);
  EXPECT_NE(fault.text.find("wmma.load.a.sync"), std::string::npos);
}

TEST(Parse, NoModifierIsOverlooked) {
  for (const char* text :
       {"add.rn.s32 %r1, %r1, %r2;", "mul.s32 %r1, %r1, %r2;", "ld.global.trans.u32 %r1, [%rd1];",
        "setp.lt.wide.u32 %p1, %r1, %r2;", "bar.sync.gpu 0;", "cvt.rna.tf32.f32 %r1, %r2;",
        "fma.rn.ftz.f64 %rd1, %rd1, %rd1, %rd1;", "min.approx.f32 %r1, %r1, %r2;",
        "shl.s32.hi %r1, %r1, %r2;", "atom.global.min.v2.f32 {%r1,%r2}, [%rd1], {%r1,%r2};",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd1,%rd2}, {%rd1}, {%rd2}, {%rd1,%rd2};",
        "tex.2dms.v4.f32.s32 {%r1,%r2,%r1,%r2}, [%rd1, {%r1,%r1,%r1,%r1}];", "add.u64 %rd1, %r1, %rd1;",
        "mov.u32 %r1, %tid;", "call.sync f;", "vote.all.pred %p1, %p1;",
        "ld.shared::cluster.u32 %r1, [%r1];"}) {
    const auto parsed = parse(kHead + ".entry k() { .reg .pred %p<3>; .reg .b32 %r<3>; .reg .b64 %rd<3>; " +
                              text + " ret; }");
    ASSERT_TRUE(parsed) << parsed.error().what() << " " << text;
    EXPECT_EQ((*parsed)->function("k")->unsupported.substr(0, 23), "unsupported instruction") << text;
  }
}

TEST(Parse, AWordThatIsNoneOfPtxIsAnErrorWithItsLine) {
  const auto told = [](const std::string& instruction, const char* version = "9.0") {
    const auto parsed = parse(std::string(".version ") + version + "\n.target sm_75\n.address_size 64\n" +
                              ".func f() { ret; }\n.entry k() { .reg .f32 %f<3>; .reg .b32 %r<3>;\n" +
                              instruction + "\nret; }");
    return parsed ? Error{} : parsed.error();
  };
  const Error fmx = told("fmx.rn.f32 %f1, %f1, %f1, %f1;");
  EXPECT_EQ(fmx.kind, Error::Kind::invalid);
  EXPECT_EQ(fmx.text, "Not a name of any known instruction: 'fmx'");
  EXPECT_EQ(fmx.line, 6U);
  EXPECT_EQ(told("add.shiny.u32 %r1, %r1, %r2;").text, "Unknown modifier '.shiny'");
  EXPECT_EQ(told("ld.global.v3.f32 {%f1, %f1, %f1}, [%r1];").text, "Unknown modifier '.v3'");
  EXPECT_EQ(told("mma.sync.aligned.mnk.row.col.f16.f16.f16.f16 %r1, %r1, %r1, %r1;").text,
            "Unknown modifier '.mnk'");
  EXPECT_EQ(told("mov.u32 %r1, %nosuch;").text, "Unknown symbol '%nosuch'");
  EXPECT_EQ(told("mov.u32 %r1, %nosuch;").line, 6U);
  EXPECT_EQ(told("add.u32 %r1, %r1, %r3;").text, "Unknown symbol '%r3'");
  EXPECT_EQ(told("add.u32 %r7, %r1, %r1;").text, "Unknown symbol '%r7'");
  // Known words, in any order and for any GPU, are another matter; so are those of a PTX that is newer than
  // the list.
  for (const char* known :
       {"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [%r1];", "add.wide.s32 %r1, %r1, %r2;",
        "tcgen05.ld.sync.aligned.16x64b.x2.b32 {%r1}, [%r1];", "vmad.s32.s32.s32.shr7 %r1, %r1, %r1, %r1;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%r1], %r1, [%r1];"})
    EXPECT_EQ(told(known).text, "") << known;
  EXPECT_EQ(told("fmx.f32 %f1, %f1;", "9.1").text, "");
}

TEST(Parse, DamageIsAnErrorWithItsLine) {
  EXPECT_EQ(error_of(".entry k() { .reg .b32 %r<3>;\n\nadd.u32 %r1, %r1 %r2; }").line, 6U);
  for (const char* text : {".entry k() {",
                           ".entry k( {",
                           "}",
                           ".entry k() { add.u32 %r1, %r2; }",
                           ".entry k() { bra NOWHERE; }",
                           ".entry k() { .reg .b32 %r<3>; mov.u32 %r1, nobody; }",
                           ".global .u32 a = b;",
                           ".global .u32 a; .global .u32 a;",
                           ".entry k() {} .entry k() {}",
                           ".global .align 3 .u32 a;",
                           ".global .u32 a[2] = {1,2,3};",
                           ".nonsense",
                           "@",
                           ".entry k() { @%p1 ; }",
                           ".global .u32 a[99999999999999];",
                           ".entry k() { .reg .b32 %r<99999999>; }",
                           ".entry k() { .reg .b32 %r1; mov.u32 %r1, 0x; }",
                           ".entry k() { .reg .b32 %r1; mov.u32 %r1, 99999999999999999999; }",
                           ".entry k() { call nobody; }",
                           ".global .f32 a = 0f12;",
                           ".entry k() { .reg .b32 %r1; ld.global.u32 %r1, %r1; }",
                           ".entry k() { { }",
                           "\"text",
                           "/* no end",
                           ".global .u32 a = {{{{1}}}"}) {
    auto parsed = parse(kHead + text);
    if (std::string(text) == "/* no end") {
      EXPECT_TRUE(parsed) << "a comment may end with the text";
      continue;
    }
    EXPECT_FALSE(parsed) << text;
  }
}

TEST(Parse, NestingIsBounded) {
  EXPECT_FALSE(parse(kHead + ".entry k() " + std::string(100000, '{')));
  EXPECT_FALSE(parse(kHead + ".global .u32 a[] = " + std::string(100000, '{')));
  EXPECT_FALSE(parse(kHead + ".entry k() { mov.b64 " + std::string(100000, '{')));
  EXPECT_FALSE(parse(kHead + ".entry k() { mov.b64 " + std::string(100000, '[')));
}

TEST(Parse, DebugSectionsAndLinesAreSkipped) {
  const auto parsed =
      parse(kHead +
            ".file 1 \"a.cu\"\n.entry k() {\n.loc 1 2 3, function_name $L__info, inlined_at 1 2 3\n.pragma "
            "\"nounroll\";\n$L__tmp1:\nret;\n}\n.section .debug_info\n{\n.b32 5\n.b8 1,2,3\nL: .b64 k\n}\n");
  ASSERT_TRUE(parsed) << parsed.error().what();
  EXPECT_EQ((*parsed)->function("k")->unsupported, "");
}

TEST(Parse, SharedMemoryCountsForWhoReachesIt) {
  const auto module = *parse(
      kHead +
      ".shared .align 4 .b8 a[100];\n.shared .align 16 .b8 b[32];\n.shared .align 4 .b8 unused[4000];\n.func "
      "f() { .reg .b32 %r<3>; ld.shared.u32 %r1, [b]; ret; }\n"
      ".entry one() { .reg .b32 %r<3>; ld.shared.u32 %r1, [a]; call f; ret; }\n.entry two() { .shared .align "
      "4 .b8 own[12]; .reg .b32 %r<3>; ld.shared.u32 %r1, [own]; ret; }\n.entry none() { ret; }");
  EXPECT_EQ(module->function("one")->static_shared_bytes, 144U);
  EXPECT_EQ(module->function("two")->static_shared_bytes, 12U);
  EXPECT_EQ(module->function("none")->static_shared_bytes, 0U);
}

TEST(Parse, RegistersAreEstimatedByWhatLivesAtOnce) {
  std::string many =
                  ".entry k(.param .u64 p) { .reg .b32 %r<101>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [p];\n",
              few = many;
  for (int i = 0; i < 100; ++i)
    many += "ld.global.u32 %r" + std::to_string(i) + ", [%rd1+" + std::to_string(4 * i) + "];\n";
  for (int i = 0; i < 100; ++i)
    many += "st.global.u32 [%rd1+" + std::to_string(4 * i) + "], %r" + std::to_string(i) + ";\n";
  for (int i = 0; i < 100; ++i)
    few += "ld.global.u32 %r" + std::to_string(i) + ", [%rd1+" + std::to_string(4 * i) +
           "]; st.global.u32 [%rd1+" + std::to_string(4 * i) + "], %r" + std::to_string(i) + ";\n";
  EXPECT_NEAR((*parse(kHead + many + "ret; }"))->function("k")->registers, 108, 4);
  EXPECT_EQ((*parse(kHead + few + "ret; }"))->function("k")->registers, 16U);
}

}  // namespace
}  // namespace gpufence::sim::ptx
