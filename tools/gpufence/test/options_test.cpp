// Where options end, and what a value may look like.
#include "tools/gpufence/options.h"

#include <gtest/gtest.h>

#include "tools/gpufence/run_options.h"

namespace gpufence::command {
namespace {

using Words = std::vector<std::string>;

RunOptions read(const Words& words) {
  const auto options = read_run_options(words);
  EXPECT_TRUE(options) << (options ? "" : options.error().text());
  return options.value_or(RunOptions{});
}

std::string error(const Words& words) {
  const auto options = read_run_options(words);
  return options ? "no error" : options.error().text();
}

TEST(RunOptions, EndAtTheFirstWordThatIsNone) {
  const RunOptions options = read({"-d", "1", "prog", "-d", "4", "--", "--frobnicate"});
  EXPECT_EQ(options.devices, "1");
  EXPECT_EQ(options.program, (Words{"prog", "-d", "4", "--", "--frobnicate"}));
}

TEST(RunOptions, EndAtTwoDashes) {
  EXPECT_EQ(read({"--", "-d", "4"}).program, (Words{"-d", "4"}));
  EXPECT_EQ(read({"-m", "8G", "--", "--", "x"}).program, (Words{"--", "x"}));
  EXPECT_EQ(read({"-", "x"}).program, (Words{"-", "x"}));
}

TEST(RunOptions, AValueIsAttachedOrTheNextWord) {
  for (const Words& words :
       {Words{"-d", "2,0", "p"}, Words{"-d2,0", "p"}, Words{"-d=2,0", "p"}, Words{"--devices", "2,0", "p"},
        Words{"--devices=2,0", "p"}, Words{"-qd", "2,0", "p"}})
    EXPECT_EQ(read(words).devices, "2,0") << words.front();
}

TEST(RunOptions, AListMayBeginWithAMinus) {
  for (const Words& words : {Words{"--devices=-3", "p"}, Words{"-d=-3", "p"}, Words{"-d", "-3", "p"},
                             Words{"--devices", "-3", "p"}, Words{"-d-3", "p"}})
    EXPECT_EQ(read(words).devices, "-3") << words.front();
}

TEST(RunOptions, ARemapIsKeptAsItIsWritten) {
  EXPECT_EQ(read({"--remap", "1=0,3=2", "p"}).remap, "1=0,3=2");
  EXPECT_EQ(read({"--remap=wrap", "p"}).remap, "wrap");
  EXPECT_EQ(error({"--remap", "--dry-run", "p"}), "--remap: needs a value; write --remap A=B,…");
}

TEST(RunOptions, AForgottenValueIsNotTheNextOption) {
  EXPECT_EQ(error({"-d", "--dry-run", "p"}), "-d: needs a value; write --devices LIST");
  EXPECT_EQ(error({"-d", "--", "p"}), "-d: needs a value; write --devices LIST");
  EXPECT_EQ(error({"--gpu-mem"}), "--gpu-mem: needs a value; write --gpu-mem CAP");
}

TEST(RunOptions, UnknownOnesAreErrors) {
  EXPECT_EQ(error({"--wait", "p"}), "--wait: this version has no such option; see gpufence run -h");
  EXPECT_EQ(error({"--mode=off", "p"}), "--mode: this version has no such option; see gpufence run -h");
  EXPECT_EQ(error({"-x", "p"}), "-x: this version has no such option; see gpufence run -h");
  EXPECT_EQ(error({"-qx", "p"}), "-x: this version has no such option; see gpufence run -h");
}

TEST(RunOptions, ImpossibleValuesAreErrors) {
  EXPECT_EQ(error({"--numbering", "mine", "p"}), "--numbering mine: is no choice; write host or view");
  EXPECT_EQ(error({"--order=slow", "p"}), "--order slow: is no choice; write keep or pci or fastest");
  EXPECT_EQ(error({"--diagnose", "most", "p"}), "--diagnose most: is no choice; write off or default or all");
  EXPECT_EQ(error({"--log-format=xml", "p"}), "--log-format xml: is no choice; write text or json");
  EXPECT_EQ(error({"--color", "no", "p"}), "--color no: is no choice; write auto or always or never");
  EXPECT_EQ(error({"--ignore", "GF203,GF4", "p"}),
            "--ignore GF203,GF4: 'GF4' is no code of a finding; see the list: gpufence explain");
  EXPECT_EQ(
      error({"--fail-on", "GF999", "p"}),
      "--fail-on GF999: is neither a severity nor a code; write info, warning, error or a code: gpufence "
      "explain lists them");
  EXPECT_EQ(error({"--log", "", "p"}), "--log: names no file; write --log FILE");
  EXPECT_EQ(error({"--report=x", "p"}), "--report: takes no value; see gpufence run -h");
  EXPECT_EQ(error({"--env", "X", "p"}), "--env X: is no K=V; write --env NAME=VALUE");
  EXPECT_EQ(error({"--env", "=X", "p"}), "--env =X: is no K=V; write --env NAME=VALUE");
  EXPECT_EQ(error({"-d", "1", "--devices", "2", "p"}), "--devices: is given twice; write it once");
}

TEST(RunOptions, ABacktraceHasANumberAttachedOrNone) {
  EXPECT_EQ(read({"p"}).backtrace, std::nullopt);
  EXPECT_EQ(read({"--backtrace", "p"}).backtrace, "16");
  EXPECT_EQ(read({"--backtrace", "8"}).program, Words{"8"});
  EXPECT_EQ(read({"--backtrace=1", "p"}).backtrace, "1");
  EXPECT_EQ(read({"--backtrace=064", "p"}).backtrace, "64");
  for (const char* bad : {"0", "65", "x", "8x", "-8", "1.5", "99999999999999999999"})
    EXPECT_EQ(
        error({std::string("--backtrace=") + bad, "p"}),
        std::string("--backtrace=") + bad +
            ": is no number of calls from 1 to 64; write --backtrace=16, or --backtrace alone for that");
  EXPECT_EQ(error({"--backtrace", "--backtrace=8", "p"}), "--backtrace: is given twice; write it once");
}

TEST(RunOptions, EnvMayBeRepeated) {
  EXPECT_EQ(read({"--env", "A=1", "--env", "B==", "p"}).env, (Words{"A=1", "B=="}));
}

TEST(RunOptions, AProgramIsNeeded) {
  EXPECT_EQ(error({}), "run: no program is named; write gpufence run [OPTIONS] -- PROGRAM [ARG…]");
  EXPECT_EQ(error({"-d", "0", "--"}),
            "run: no program is named; write gpufence run [OPTIONS] -- PROGRAM [ARG…]");
  EXPECT_TRUE(read({"-h"}).help);
}

TEST(RunOptions, TheLastOfQuietAndVerboseCounts) {
  EXPECT_EQ(read({"-q", "p"}).loudness, "error");
  EXPECT_EQ(read({"-v", "p"}).loudness, "info");
  EXPECT_EQ(read({"-q", "-v", "p"}).loudness, "info");
  EXPECT_EQ(read({"p"}).loudness, std::nullopt);
}

TEST(RunOptions, HelpNamesEveryOption) {
  const std::string help = run_help();
  for (const char* option :
       {"-d, --devices LIST", "--numbering HOW", "--order HOW", "--ignore-mask", "--remap A=B,…",
        "-m, --gpu-mem CAP", "--gpu-mem-per-process CAP", "--backtrace[=N]", "--report-file FILE",
        "-q, --quiet", "-v, --verbose", "--dry-run", "--sim SPEC", "--name LABEL", "--env K=V", "-h, --help",
        "--help-all", "-V, --version"})
    EXPECT_NE(help.find(option), std::string::npos) << option;
}

}  // namespace
}  // namespace gpufence::command
