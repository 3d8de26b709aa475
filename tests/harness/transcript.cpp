// What the programs of a test said, printed when the test fails: a failure on a machine that nobody can look
// at must explain itself. Linked beside GoogleTest; the harness only keeps the texts.
#include <gtest/gtest.h>

#include <cstdio>

#include "harness.h"

namespace gpufence::harness {
namespace {

class Transcript : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { forget_programs(); }

  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    for (const std::string& program : programs_of_this_test()) std::printf("%s\n", program.c_str());
  }
};

const bool listening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Transcript);  // GoogleTest owns it
  return true;
}();

}  // namespace
}  // namespace gpufence::harness
