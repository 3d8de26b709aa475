// --backtrace: where a call came from, from stacks of every kind, native and Python's; and that no stack,
// however damaged, and no interpreter, whatever it does meanwhile, does more harm than to be told less of.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "machines.h"

namespace gpufence::harness {
namespace {

namespace fs = std::filesystem;

const With kOn{.devices = "2,0", .options = {"--backtrace"}};

// What stands behind the last "cuEventRecord at " or "cudaEventRecord at " in each line of stderr, with
// places of objects cut to their names: "stacks (record)".
std::vector<std::string> places(const Result& result) {
  std::vector<std::string> out;
  std::istringstream lines(result.err);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.rfind("EventRecord at ");
    std::string place = at == std::string::npos ? line : line.substr(at + 15);
    for (std::size_t plus; (plus = place.find("+0x")) != std::string::npos;)
      place.erase(plus, place.find_first_not_of("0123456789abcdef", plus + 3) - plus);
    out.push_back(place);
  }
  return out;
}

std::vector<std::string> places_of(const std::string& kind, const With& with = kOn) {
  FourGpus m;
  const Result r = m.run({"timeout", "60", probe("stacks"), kind}, with);
  EXPECT_EQ(r.exit, 0) << r.out << r.err;
  EXPECT_TRUE(r.says(kind + ": as expected\n")) << r.out << r.err;
  return places(r);
}

using Lines = std::vector<std::string>;

TEST(Backtrace, IsSaidInTheSameLineAndOnlyIfAskedFor) {
  EXPECT_EQ(
      places_of("plain"),
      Lines{"stacks (record), thread \"stacks\"; stack: stacks (record) < stacks (step) < stacks (main)"});
  EXPECT_EQ(places_of("plain", {.devices = "2,0"}), Lines{"stacks (record), thread \"stacks\""});
  EXPECT_EQ(places_of("plain", {.devices = "2,0", .env = {{"GPUFENCE_BACKTRACE", "1"}}}),
            Lines{"stacks (record), thread \"stacks\"; stack: stacks (record)"});
}

TEST(Backtrace, IsAsLongAsItIsAskedToBe) {
  std::string expected = "stacks (record), thread \"stacks\"; stack: stacks (record) < stacks (step)";
  for (int i = 2; i < 16; ++i) expected += " < stacks (deep)";
  EXPECT_EQ(places_of("deep"), Lines{expected});
  EXPECT_EQ(
      places_of("deep", {.devices = "2,0", .options = {"--backtrace=3"}}),
      Lines{"stacks (record), thread \"stacks\"; stack: stacks (record) < stacks (step) < stacks (deep)"});
}

TEST(Backtrace, OfTheMostFramesIsALineThatAPipeTakesAtOnce) {
  FourGpus m;
  for (const char* format : {"text", "json"}) {
    const Result r = m.run({probe("stacks"), "deep"},
                           {.devices = "2,0", .options = {"--backtrace=64", "--log-format", format}});
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(r.complains("deep")) << r.err;
    EXPECT_LE(r.err.size(), 4096u) << format;
  }
}

TEST(Backtrace, EndsWhereAThreadOrACoroutineBegins) {
  EXPECT_EQ(places_of("threads"), Lines{"stacks (record), thread \"stacks\"; stack: stacks (record) < stacks "
                                        "(step) < stacks (in_thread)"});
#ifndef GPUFENCE_SANITIZED
  EXPECT_EQ(places_of("context"), Lines{"stacks (record), thread \"stacks\"; stack: stacks (record) < stacks "
                                        "(step) < stacks (in_context)"});
#endif
}

TEST(Backtrace, GoesThroughASignalToTheStackBelow) {
  const Lines said = places_of("signal");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(
      said[0].starts_with("stacks (record), thread \"stacks\"; stack: stacks (record) < stacks (step) < "
                          "stacks (on_signal) < "))
      << said[0];
  EXPECT_TRUE(said[0].ends_with(" < stacks (main)")) << said[0];
}

#ifndef GPUFENCE_SANITIZED
TEST(Backtrace, FitsIntoTheSmallestStackOfAThread) {
  EXPECT_EQ(places_of("small_thread"),
            Lines{"stacks (record), thread \"stacks\"; stack: stacks (record) < stacks "
                  "(step) < stacks (in_thread)"});
}

TEST(Backtrace, TakesNoMoreOfTheStackForALongName) {
  FourGpus m;
  const Result r = m.run({probe("stacks"), "measured"}, kOn);
  EXPECT_TRUE(r.complains(" (Long<Long<Long<")) << r.err;
  unsigned bytes = 0;
  ASSERT_EQ(std::sscanf(r.out.c_str(), "stack: %u", &bytes), 1) << r.out;
  EXPECT_LT(bytes, 10u << 10);
}
#endif

TEST(Backtrace, EndsAtCodeThatNothingTellsOf) {
  const Lines said = places_of("jit");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(
      said[0].starts_with("stacks (record), thread \"stacks\"; stack: stacks (record) < stacks (step) < "
                          "unknown code at 0x"))
      << said[0];
}

TEST(Backtrace, OfADamagedStackIsShort) {
  EXPECT_EQ(places_of("return_address"),
            Lines{"stacks (record), thread \"stacks\"; stack: stacks (record) < stacks (step) < stacks "
                  "(with_bad_return_address) < unknown code at 0x4141414141414141"});
  for (const char* kind : {"base", "far_base"})
    EXPECT_EQ(places_of(kind),
              Lines{"stacks (record), thread \"stacks\"; stack: stacks (record) < stacks (step) < "
                    "stacks (with_bad_base)"});
}

TEST(Backtrace, DoesNotEndAThreadThatIsCancelled) {
  // Calls are not logged here: the simulated driver's own writing would be where the thread ends.
  EXPECT_EQ(
      places_of("cancelled", {.devices = "2,0", .options = {"--backtrace"}, .unset = {"GPUFENCE_SIM_CALLS"}}),
      Lines{"stacks (record), thread \"stacks\"; stack: stacks (record) < stacks "
            "(step) < stacks (when_cancelled)"});
}

TEST(Backtrace, DoesNotWaitForALoaderThatWaitsForIt) {
  FourGpus m;
  const Result r =
      m.run({"timeout", "60", probe("stacks"), "constructor", probe("libwaits_in_constructor.so")}, kOn);
  EXPECT_EQ(r.out, "constructor: as expected\n") << r.exit << r.err;
  ASSERT_EQ(places(r).size(), 1u) << r.err;
  EXPECT_TRUE(
      places(r)[0].starts_with("stacks (record), thread \"stacks\"; stack: stacks (record) < stacks (step) "
                               "< libwaits_in_constructor.so"))
      << r.err;
}

TEST(Backtrace, IsFoundThroughEitherRuntime) {
  FourGpus m;
  for (const char* program : {"mixes_shared", "mixes_static"}) {
    const Result r = m.run({probe(program), "record"}, kOn);
    ASSERT_EQ(places(r).size(), 1u) << r.err;
    const std::string name = program;
    EXPECT_TRUE(places(r)[0].ends_with(name + " (record) < " + name + " (main)")) << r.err;
    EXPECT_FALSE(r.complains("libcudart")) << r.err;
  }
  // Where CUPTI tells the runtime's calls, it has no frames of its own below them.
  const Result r = m.run({probe("mixes_static"), "record"},
                         {.devices = "2,0", .options = {"--backtrace", "--diagnose", "all"}});
  EXPECT_EQ(places(r), Lines{"mixes_static (record), thread \"mixes_static\"; stack: mixes_static (record) < "
                             "mixes_static (main)"});
}

TEST(Backtrace, StandsInRecordsAndInWhatIsSaidLater) {
  FourGpus m;
  const fs::path log = m.directory() / "log.jsonl";
  const Result r = m.run({probe("mixes_shared"), "launch_twice"},
                         {.devices = "2,0", .options = {"--backtrace", "--log", log.string()}});
  std::istringstream lines(read_file(log));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line)) << r.err;
  const nlohmann::json record = nlohmann::json::parse(line);
  EXPECT_TRUE(record.at("python").is_null());
  ASSERT_EQ(record.at("stack").size(), 2u) << line;
  EXPECT_EQ(record.at("stack")[0], record.at("site"));
  EXPECT_EQ(record.at("stack")[0].at("symbol"), "step");
  EXPECT_EQ(record.at("stack")[1].at("object"), "mixes_shared");
  EXPECT_EQ(record.at("stack")[1].at("symbol"), "main");
  EXPECT_EQ(record.at("stack")[1].at("build_id"), record.at("site").at("build_id"));
  EXPECT_EQ(record.at("message").get<std::string>().find("stack"), std::string::npos);
  const Result last = m.gpufence({"last"});
  EXPECT_TRUE(last.says(" (step) < mixes_shared+0x")) << last.out;
}

TEST(Backtrace, IsRefusedOrIgnoredWhereItIsNoNumber) {
  FourGpus m;
  const Result option = m.run({probe("stacks"), "plain"}, {.options = {"--backtrace=65"}});
  EXPECT_EQ(option.exit, 125);
  EXPECT_EQ(
      option.err,
      "gpufence: --backtrace=65: is no number of calls from 1 to 64; write --backtrace=16, or --backtrace "
      "alone for that\n");
  const Result variable =
      m.run({probe("stacks"), "plain"}, {.devices = "2,0", .env = {{"GPUFENCE_BACKTRACE", "many"}}});
  EXPECT_TRUE(variable.complains(
      "GF502 warning: GPUFENCE_BACKTRACE=many is ignored: a number of calls from 1 to 64 is meant\n"))
      << variable.err;
  EXPECT_EQ(places(variable).back(), "stacks (record), thread \"stacks\"");
}

// ---- Python

std::string in_python(const std::string& kind, std::size_t lines = 1) {
  FourGpus m;
  const Result r = m.run({"timeout", "60", "python3", probe("mixes_ctypes.py"), kind}, kOn);
  EXPECT_EQ(r.out, "done\n") << r.exit << r.err;
  EXPECT_EQ(places(r).size(), lines) << r.err;
  return places(r).empty() ? "" : places(r)[0];
}

std::string python_part(const std::string& place) {
  const std::size_t at = place.find("; python: ");
  return at == std::string::npos ? "none in " + place : place.substr(at + 10);
}

TEST(PythonBacktrace, NamesTheLineInsteadOfLibffi) {
  const std::string place = in_python("plain");
  EXPECT_TRUE(place.starts_with("mixes_ctypes.py:25 (record), thread \"")) << place;
  EXPECT_EQ(python_part(place),
            "mixes_ctypes.py:25 (record) < mixes_ctypes.py:35 (run) < mixes_ctypes.py:47 (<module>)");
  // Not a frame each of the interpreter's loop.
  EXPECT_NE(place.find("; stack: … "), std::string::npos) << place;
  EXPECT_NE(place.find(" frames in libffi"), std::string::npos) << place;
}

TEST(PythonBacktrace, IsTheSameUnderTheInterpretersLock) {
  EXPECT_EQ(python_part(in_python("locked")),
            "mixes_ctypes.py:25 (record) < mixes_ctypes.py:35 (run) < mixes_ctypes.py:47 (<module>)");
}

TEST(PythonBacktrace, GoesThroughGenerators) {
  EXPECT_EQ(python_part(in_python("generator")),
            "mixes_ctypes.py:25 (record) < mixes_ctypes.py:30 (rows) < mixes_ctypes.py:49 (<module>)");
}

TEST(PythonBacktrace, IsThatOfTheThread) {
  const std::string place = in_python("threads");
  EXPECT_TRUE(place.starts_with("mixes_ctypes.py:25 (record), thread \"worker-2\"; ")) << place;
  EXPECT_TRUE(python_part(place).starts_with(
      "mixes_ctypes.py:25 (record) < mixes_ctypes.py:54 (work) < threading.py:"))
      << place;
}

TEST(PythonBacktrace, IsThereWhileTheInterpreterEnds) {
  EXPECT_EQ(python_part(in_python("finalises")), "mixes_ctypes.py:25 (record)");
}

TEST(PythonBacktrace, OfThreadsThatTheInterpreterEndsUnderDoesNoHarm) {
  FourGpus m;
  const Result r = m.run({"timeout", "60", "python3", probe("mixes_ctypes.py"), "daemons"}, kOn);
  EXPECT_EQ(r.out, "done\n") << r.exit << r.err;
  EXPECT_EQ(r.exit, 0) << r.err;
  EXPECT_TRUE(r.complains("python: mixes_ctypes.py:25 (record) < daemon-")) << r.err;
}

TEST(PythonBacktrace, MakesEachLineAPlaceOfItsOwn) {
  FourGpus m;
  const fs::path script = m.directory() / "twice.py";
  std::ofstream(script) << R"(import ctypes
lib = ctypes.CDLL("libcudart.so.13")
stream, event = ctypes.c_void_p(), ctypes.c_void_p()
lib.cudaStreamCreate(ctypes.byref(stream))
lib.cudaSetDevice(1)
lib.cudaEventCreate(ctypes.byref(event))
for _ in range(3):
    lib.cudaEventRecord(event, stream)
    lib.cudaEventRecord(event, stream)
)";
  const Result r = m.run({"python3", script.string()}, kOn);
  ASSERT_EQ(places(r).size(), 2u) << r.err;
  EXPECT_TRUE(places(r)[0].starts_with("twice.py:8 (<module>), ")) << r.err;
  EXPECT_TRUE(places(r)[1].starts_with("twice.py:9 (<module>), ")) << r.err;
  const Result last = m.gpufence({"last", "--json"});
  const auto findings = nlohmann::json::parse(last.out).at("findings");
  ASSERT_EQ(findings.size(), 2u) << last.out;
  EXPECT_EQ(findings[0].at("count"), 3);
  EXPECT_EQ(findings[0].at("python"),
            (nlohmann::json::array({{{"file", script.string()}, {"line", 8}, {"function", "<module>"}}})));
  EXPECT_TRUE(m.gpufence({"last"}).says("; python: twice.py:8 (<module>) (×3)\n"));
}

TEST(PythonBacktrace, StandsInRefusalsAndWrongOrdinalsToo) {
  FourGpus m;
  const fs::path script = m.directory() / "asks.py";
  std::ofstream(script) << R"(import ctypes
lib = ctypes.CDLL("libcudart.so.13")
def choose(): lib.cudaSetDevice(7)
choose()
lib.cudaSetDevice(9)
lib.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 30))
)";
  const Result r = m.run({"python3", script.string()},
                         {.devices = "2,0", .gpu_mem = "512MiB", .options = {"--backtrace"}});
  EXPECT_TRUE(r.complains("; cudaSetDevice at asks.py:3 (choose), thread \"")) << r.err;
  EXPECT_TRUE(r.complains("; python: asks.py:3 (choose) < asks.py:4 (<module>)\n")) << r.err;
  EXPECT_TRUE(r.complains("; cudaSetDevice at asks.py:5 (<module>), thread \"")) << r.err;
  EXPECT_TRUE(r.complains("; at asks.py:6 (<module>); stack: … ")) << r.err;
}

// An interpreter in a program of another kind. Its library, and where the rest of it lies; empty: there is
// none.
std::pair<std::string, std::string> embeddable(Machine& m) {
  const Result r = m.command(
      {"python3", "-c",
       "import os, sys, sysconfig; v = sysconfig.get_config_var\n"
       "names = [os.path.join(v('LIBDIR') or '', v(n) or '') for n in ('INSTSONAME', 'LDLIBRARY')]\n"
       "names += [f'/usr/lib/x86_64-linux-gnu/libpython3.{sys.version_info[1]}.so.1.0']\n"
       "print(next((n for n in names if '.so' in n and os.path.exists(n)), ''), sys.base_prefix, sep='\\n', "
       "end='')"});
  const std::size_t end = r.out.find('\n');
  return end == std::string::npos ? std::pair<std::string, std::string>{}
                                  : std::pair{r.out.substr(0, end), r.out.substr(end + 1)};
}

std::string embedded(const std::string& kind, const std::string& script) {
  FourGpus m;
  const auto [library, home] = embeddable(m);
  if (library.empty()) return "none";
  const Result r = m.run({"timeout", "60", probe("stacks"), kind, library, script},
                         {.devices = "2,0", .options = {"--backtrace"}, .env = {{"PYTHONHOME", home}}});
  EXPECT_EQ(r.out, kind + ": as expected\n") << r.exit << r.err;
  EXPECT_EQ(places(r).size(), 1u) << r.err;
  return places(r).empty() ? "" : places(r)[0];
}

TEST(PythonBacktrace, WaitsForNoThreadThatHoldsTheInterpretersLock) {
  const std::string place = embedded("python", R"(import ctypes, threading
own = ctypes.CDLL(None)
def work():
    own.step_and_tell()
thread = threading.Thread(target=work)
thread.start()
ctypes.PyDLL(None).wait_for_step()
thread.join()
)");
  if (place == "none") GTEST_SKIP() << "python3 here has no library to embed";
  EXPECT_TRUE(
      place.starts_with("stacks (record) from <string>:4 (work), thread \"stacks\"; stack: stacks (record) < "
                        "stacks (step) < stacks (step_and_tell) < … "))
      << place;
  EXPECT_TRUE(python_part(place).starts_with("<string>:4 (work) < threading.py:")) << place;
}

TEST(PythonBacktrace, IsNoneBeforeAndAfterTheInterpreter) {
  for (const char* when : {"before", "after"}) {
    const std::string place = embedded(when, "pass");
    if (place == "none") GTEST_SKIP() << "python3 here has no library to embed";
    EXPECT_TRUE(
        place.starts_with("stacks (record), thread \"stacks\"; stack: stacks (record) < stacks (step) < "))
        << place;
    EXPECT_EQ(place.find("python:"), std::string::npos) << place;
  }
}

}  // namespace
}  // namespace gpufence::harness
