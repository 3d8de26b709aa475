// Device-side printf, to the letter, and the heap's and assert's refusals.
#include <cmath>

#include "grid.h"

namespace gpufence::sim::ptx {
namespace {

// One thread prints with these 8-byte arguments.
std::string printed(const std::string& format, const std::vector<uint64_t>& arguments,
                    Fault::Kind kind = Fault::Kind::none) {
  std::string bytes;
  for (const char c : format) bytes += std::to_string(static_cast<int>(c)) + ",";
  std::string text =
      ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n.global .align 1 .b8 format[] = "
      "{" +
      bytes +
      "0};\n.global .align 1 .b8 word[6] = {104,101,108,108,111};\n"
      ".visible .entry k() { .reg .b32 %r<4>; .reg .b64 %rd<8>; .local .align 8 .b8 l[128]; mov.u64 %rd1, l; "
      "cvta.local.u64 %rd2, %rd1; mov.u64 %rd4, word;\n";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string value = arguments[i] == 0xabcdef ? "%rd4" : "%rd5";
    text += "mov.u64 %rd5, " + std::to_string(static_cast<int64_t>(arguments[i])) + "; st.local.u64 [l+" +
            std::to_string(8 * i) + "], " + value + ";\n";
  }
  text +=
      "mov.u64 %rd3, format; { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %rd3; "
      "st.param.b64 [a], %rd2; call.uni (r), vprintf, (f, a); ld.param.b32 %r1, [r]; } ret; }";
  Grid grid(text);
  const Fault fault = grid.run("k", 1, 1);
  EXPECT_EQ(fault.kind, kind) << fault.text;
  return grid.sinks.text;
}

TEST(Printf, ConversionsWidthsAndFlags) {
  EXPECT_EQ(printed("plain\n", {}), "plain\n");
  EXPECT_EQ(printed("%lld|%5lld|%-5lld|%05lld|%+lld", {7, 7, 7, 7, 7}), "7|    7|7    |00007|+7");
  EXPECT_EQ(printed("%llu %llx %llX %#llo", {~uint64_t{0}, 255, 255, 8}), "18446744073709551615 ff FF 010");
  EXPECT_EQ(printed("%f %.2f %10.3e %g", {bits(1.5), bits(2.345), bits(12345.678), bits(0.0001)}),
            "1.500000 2.35  1.235e+04 0.0001");
  EXPECT_EQ(printed("[%s] [%8s] [%-8s] [%.2s]", {0xabcdef, 0xabcdef, 0xabcdef, 0xabcdef}),
            "[hello] [   hello] [hello   ] [he]");
  EXPECT_EQ(printed("%p", {0x7f00}), "0x7f00");
  EXPECT_EQ(printed("100%% %ld", {static_cast<uint64_t>(-1)}), "100% -1");
  EXPECT_EQ(printed("%d", {0xffffffff}), "-1");
  EXPECT_EQ(printed("%u %c", {(uint64_t{'x'} << 32) | 5}), "5 x") << "4-byte arguments follow each other";
  EXPECT_EQ(printed("%*d", {(uint64_t{42} << 32) | 6}), "    42");
  EXPECT_EQ(printed("%hhd %hu", {(uint64_t{0x12345} << 32) | 0x1ff}), "-1 9029");
  EXPECT_EQ(printed("%f", {bits(HUGE_VAL)}), "inf");
  EXPECT_EQ(printed("%s", {0}), "(null)");
}

TEST(Printf, OddFormatsArePrintedAsTheyAre) {
  EXPECT_EQ(printed("50%", {}), "50%");
  EXPECT_EQ(printed("%y", {}), "%y");
  EXPECT_EQ(printed("%-5", {}), "%-5");
  EXPECT_EQ(printed("%99999999lld", {5}).size(), 1024U);
}

TEST(Printf, AStringThatCannotBeReadFaults) {
  EXPECT_EQ(printed("%s", {12345}, Fault::Kind::illegal_address), "");
}

TEST(Heap, FreeOfSomethingElseFaults) {
  Grid grid(
      ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n"
      ".visible .entry k(.param .u64 out, .param .u64 size) { .reg .b64 %rd<6>; ld.param.u64 %rd1, [out]; "
      "ld.param.u64 %rd2, [size]; { .param .b64 n; .param .b64 r; st.param.b64 [n], %rd2; call (r), malloc, "
      "(n); ld.param.b64 %rd3, [r]; }\n"
      "st.global.u64 [%rd1], %rd3; ret; }\n"
      ".visible .entry release(.param .u64 p) { .reg .b64 %rd<6>; ld.param.u64 %rd1, [p]; { .param .b64 n; "
      "st.param.b64 [n], %rd1; call free, (n); } ret; }");
  std::vector<uint64_t> out(1);
  grid.array(out).arg(uint64_t{100}).ok("k", 1, 1);
  EXPECT_NE(out[0], 0U);
  EXPECT_EQ(out[0] % 16, 0U);
  const uint64_t block = out[0];
  grid.clear_args().arg(out.data()).arg(uint64_t{1} << 40).ok("k", 1, 1);
  EXPECT_EQ(out[0], 0U) << "too much";
  grid.clear_args().arg(block).ok("release", 1, 1);
  EXPECT_EQ(grid.run("release", 1, 1).kind, Fault::Kind::illegal_address) << "twice";
  grid.clear_args().arg(uint64_t{0}).ok("release", 1, 1);
}

}  // namespace
}  // namespace gpufence::sim::ptx
