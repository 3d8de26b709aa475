// Records: every key, null where it does not apply; and what a reader makes of damaged ones.
#include "journal/record.h"

#include <gtest/gtest.h>

#include "journal/log_file.h"
#include "journal/process_file.h"
#include "journal/run_directory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpufence::journal {
namespace {

const Finding kFull{.code = "GF203",
                    .severity = Severity::warning,
                    .message = "kernel saxpy on the wrong GPU",
                    .api = "cudaLaunchKernel",
                    .site = {.object = "app", .build_id = "0badcafe", .symbol = "step", .offset = 19472},
                    .tid = 4712,
                    .thread = "worker-2",
                    .device = {1, 3, "GPU-b", "0000:81:00.0", "H100"},
                    .other_device = {0, 2, "GPU-a", "0000:41:00.0", "H100"},
                    .bytes = 2147483648,
                    .held = 4,
                    .cap = 8,
                    .scope = "run",
                    .rule = "--gpu-mem"};

TEST(Record, HasEveryKeyOfTheInterface) {
  EXPECT_EQ(
      to_json_line(kFull, {"20261130-191038-7", 4711, "3", 1796065838123456789}, 2),
      "{\"api\":\"cudaLaunchKernel\",\"bytes\":2147483648,\"cap\":8,\"code\":\"GF203\",\"count\":2,"
      "\"device\":{\"host_index\":3,\"name\":\"H100\",\"ordinal\":1,\"pci\":\"0000:81:00.0\",\"uuid\":"
      "\"GPU-b\"},\"held\":4,\"message\":\"kernel saxpy on the wrong GPU\",\"other_device\":{\"host_index\":"
      "2,\"name\":\"H100\",\"ordinal\":0,\"pci\":\"0000:41:00.0\",\"uuid\":\"GPU-a\"},\"pid\":4711,"
      "\"python\":null,\"rank\":\"3\",\"rule\":\"--gpu-mem\",\"run_id\":\"20261130-191038-7\",\"schema\":1,"
      "\"scope\":\"run\",\"severity\":\"warning\",\"site\":{\"build_id\":\"0badcafe\",\"object\":\"app\","
      "\"offset\":19472,\"symbol\":\"step\"},\"stack\":null,\"thread\":\"worker-2\",\"tid\":4712,\"time\":"
      "\"2026-11-30T19:10:38.123456Z\"}\n");
}

TEST(Record, SaysNullWhereAKeyDoesNotApply) {
  EXPECT_EQ(
      to_json_line({.code = "GF502", .severity = Severity::error, .message = "m\n\xff"}, {"", 7, "", 0}, 1),
      "{\"api\":null,\"bytes\":null,\"cap\":null,\"code\":\"GF502\",\"count\":1,\"device\":null,\"held\":"
      "null,\"message\":\"m\\n\xef\xbf\xbd\",\"other_device\":null,\"pid\":7,\"python\":null,\"rank\":null,"
      "\"rule\":null,\"run_id\":null,\"schema\":1,\"scope\":null,\"severity\":\"error\",\"site\":null,"
      "\"stack\":null,\"thread\":null,\"tid\":null,\"time\":\"1970-01-01T00:00:00.000000Z\"}\n");
}

Finding with_stacks() {
  Finding finding = kFull;
  finding.stack = {finding.site,
                   {.object = "app", .build_id = "0badcafe", .symbol = "main", .offset = 20480},
                   {.offset = 0x4141}};
  finding.python = {{"/home/ada/train.py", "step", 41}, {"/home/ada/train.py", "<module>", 0}};
  return finding;
}

TEST(Record, HasCallStacksWhereTheyAreKnown) {
  const std::string line = to_json_line(with_stacks(), {"r", 4711, "", 0}, 1);
  EXPECT_NE(line.find("\"python\":[{\"file\":\"/home/ada/train.py\",\"function\":\"step\",\"line\":41},"
                      "{\"file\":\"/home/ada/train.py\",\"function\":\"<module>\",\"line\":null}]"),
            std::string::npos)
      << line;
  EXPECT_NE(
      line.find("\"stack\":[{\"build_id\":\"0badcafe\",\"object\":\"app\",\"offset\":19472,"
                "\"symbol\":\"step\"},{\"build_id\":\"0badcafe\",\"object\":\"app\",\"offset\":20480,"
                "\"symbol\":\"main\"},{\"build_id\":null,\"object\":null,\"offset\":16705,\"symbol\":null}]"),
      std::string::npos)
      << line;
  const std::vector<Record> records = read_records(line);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].stack,
            "; stack: app+0x4c10 (step) < app+0x5000 (main) < unknown code at 0x4141"
            "; python: train.py:41 (step) < train.py:? (<module>)");
  EXPECT_EQ(records[0].key, key_of(with_stacks()));
}

TEST(Record, OfTwoLinesOfPythonIsOfTwoFindings) {
  Finding other = with_stacks();
  EXPECT_EQ(key_of(with_stacks()), key_of(other));
  other.python[0].line = 42;
  EXPECT_NE(key_of(with_stacks()), key_of(other));
}

TEST(Record, LeavesOutOuterCallsWhereAPipeTakesNoMore) {
  Finding finding = with_stacks();
  for (int i = 0; i < 60; ++i) finding.stack.push_back(finding.stack[1]);
  const Speaker speaker{"r", 4711, "", 0};
  EXPECT_GT(to_json_line(finding, speaker, 1).size(), 4096u);
  const std::string line = to_json_line_within(finding, speaker, 1, 4096);
  EXPECT_LE(line.size(), 4096u);
  EXPECT_GT(line.size(), 3500u);
  EXPECT_EQ(read_records(line).at(0).key, key_of(finding));
  EXPECT_EQ(to_json_line_within(finding, speaker, 1, 1 << 20), to_json_line(finding, speaker, 1));
}

TEST(Record, IsReadBack) {
  const std::string line = to_json_line(kFull, {"r", 4711, "", 0}, 5);
  const std::vector<Record> records = read_records(line);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].code, "GF203");
  EXPECT_EQ(records[0].severity, "warning");
  EXPECT_EQ(records[0].pid, 4711);
  EXPECT_EQ(records[0].count, 5u);
  EXPECT_EQ(records[0].key, key_of(kFull));
  EXPECT_EQ(records[0].key, "GF203 warning app+19472 GPU-b GPU-a kernel saxpy on the wrong GPU");
}

TEST(Record, AnExtraContextIsTheSameWhereverTheProcessWorks) {
  Finding context = kFull, elsewhere = kFull;
  context.code = elsewhere.code = "GF202";
  elsewhere.other_device.uuid = "GPU-z";
  EXPECT_EQ(key_of(context), key_of(elsewhere));
  elsewhere.device.uuid = "GPU-z";
  EXPECT_NE(key_of(context), key_of(elsewhere));
}

TEST(Record, OrdinalsAndMasksOfOnePlaceAreToldApart) {
  Finding one = kFull, two = kFull;
  one.code = two.code = "GF101";
  one.once = "1";
  two.once = "2";
  EXPECT_NE(key_of(one), key_of(two));
}

TEST(Record, ATornOrForeignLineIsSkippedByReaders) {
  const std::string line = to_json_line({.code = "GF101", .message = "m"}, {"r", 1, "", 0}, 1);
  for (const std::string& damaged :
       {line.substr(0, 40) + "\n", std::string("\n"), std::string("[1]\n"), std::string("{\"schema\":2}\n"),
        std::string("{\"schema\":1,\"code\":7}\n"), std::string("\xff\n")}) {
    EXPECT_EQ(read_records(damaged + line).size(), 1u) << damaged;
    EXPECT_EQ(read_records(line + damaged).size(), 1u) << damaged;
  }
  EXPECT_EQ(read_records(line + line.substr(0, 40)).size(), 1u);
  EXPECT_EQ(read_records(line.substr(0, line.size() - 1)).size(), 0u);
}

TEST(LogFile, APathTakesWhatThePercentSignsStandFor) {
  const PathFacts facts{"4711", "ada", "node7", "88", "20261130-191038"};
  EXPECT_EQ(expand_path("/var/log/%u/%j-%p.jsonl", facts), "/var/log/ada/88-4711.jsonl");
  EXPECT_EQ(expand_path("%h_%t_100%%", facts), "node7_20261130-191038_100%");
  EXPECT_EQ(expand_path("%x %", facts), "%x %");
  EXPECT_EQ(expand_path("/l/%u/%h", {"", "..", "a/b", "", ""}), "/l/_/a_b");
}

TEST(LogFile, ALineAfterATornOneIsWhole) {
  std::string path = std::filesystem::temp_directory_path() / "gpufence-log-XXXXXX";
  const int made = mkstemp(path.data());
  ASSERT_GE(made, 0);
  EXPECT_EQ(write(made, "{\"schema\":1,\"co", 15), 15);
  close(made);
  EXPECT_TRUE(append_line(path, "whole\n", 0600));
  EXPECT_TRUE(append_line(path, "next\n", 0600));
  EXPECT_FALSE(append_line(path, "too much\n", 0600, 30));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "{\"schema\":1,\"co\nwhole\nnext\n");
  std::filesystem::remove(path);
}

TEST(RunDirectory, IsWhereTheXdgSpecificationSays) {
  EXPECT_EQ(state_directory("/state", "/home/ada"), "/state/gpufence");
  EXPECT_EQ(state_directory(std::nullopt, "/home/ada"), "/home/ada/.local/state/gpufence");
  EXPECT_EQ(state_directory("relative", "/home/ada"), "/home/ada/.local/state/gpufence");
  EXPECT_EQ(state_directory("", std::nullopt), "");
}

TEST(RunDirectory, ARunsNameLeadsNowhereElse) {
  for (const char* name : {"20261130-191038-7", "outer-1/inner-2", "job_7.b", "a@b+c"})
    EXPECT_TRUE(is_run_name(name)) << name;
  for (const char* name : {"", "/", "/tmp", "..", "a/../b", "a//b", "a/", ".hidden", "a b", "a\nb", "share",
                           "records.jsonl", "7.process", "1/2/3/4/5/6/7/8/9"})
    EXPECT_FALSE(is_run_name(name)) << name;
}

TEST(RunDirectory, OnlyOldRunsOfOursArePruned) {
  std::string state = std::filesystem::temp_directory_path() / "gpufence-state-XXXXXX";
  ASSERT_NE(mkdtemp(state.data()), nullptr);
  const auto age = [&](const std::string& path) {
    std::filesystem::last_write_time(path,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(72));
  };
  for (const char* run : {"old", "old-with-more", "new", "other"}) {
    std::filesystem::create_directories(state + '/' + run);
    std::ofstream(state + '/' + run + "/records.jsonl");
  }
  std::ofstream(state + "/old-with-more/thesis.tex");
  for (const char* run : {"old", "old-with-more"}) {
    age(state + '/' + run + "/records.jsonl");
    age(state + '/' + run);
  }
  prune_runs(state, 4);
  EXPECT_TRUE(std::filesystem::exists(state + "/old"));
  prune_runs(state, 1);
  EXPECT_FALSE(std::filesystem::exists(state + "/old"));
  EXPECT_TRUE(std::filesystem::exists(state + "/old-with-more/thesis.tex"));
  EXPECT_TRUE(std::filesystem::exists(state + "/new"));
  std::filesystem::remove_all(state);
}

TEST(ProcessFile, KeepsWhatIsKnownAndCountedUntilThen) {
  std::string directory = std::filesystem::temp_directory_path() / "gpufence-process-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  ProcessFile* file = ProcessFile::create(directory, 4711);
  if (file == nullptr) GTEST_SKIP() << directory << " is on no disk that files are mapped from";
  Report report;
  report.program = "train.py";
  report.began_ns = 1796065838123456789;
  report.notes = {"one", "two"};
  ReportRow row;
  row.ordinal = 1;
  row.uuid = "GPU-b";
  row.cap = 1024;
  report.rows = {ReportRow{}, row};
  file->describe(report, true);
  file->chosen_by(1, std::string(300, 'x'));
  file->counters()[1].peak.store(77);
  file->count("GF203", 2);
  file->count("GF401", 1);
  file->count("GF203", 3);

  const auto read = ProcessFile::read(directory + "/4711.0.process");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->ended);
  EXPECT_EQ(read->pid, 4711);
  EXPECT_EQ(read->program, "train.py");
  EXPECT_EQ(read->began_ns, 1796065838123456789u);
  EXPECT_EQ(read->notes, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(read->findings, (std::map<std::string, std::uint64_t>{{"GF203", 3}, {"GF401", 1}}));
  ASSERT_EQ(read->rows.size(), 2u);
  EXPECT_EQ(read->rows[1].peak, 77u);
  EXPECT_EQ(read->rows[1].uuid, "GPU-b");
  EXPECT_EQ(read->rows[1].cap, 1024u);
  EXPECT_FALSE(read->rows[0].cap);
  EXPECT_EQ(read->rows[1].chosen_by, std::string(191, 'x'));

  // Another program in the same process (exec), and one that came to its end.
  ASSERT_NE(ProcessFile::create(directory, 4711), nullptr);
  EXPECT_TRUE(std::filesystem::exists(directory + "/4711.1.process"));
  file->end(5);
  EXPECT_TRUE(ProcessFile::read(directory + "/4711.0.process")->ended);
  std::filesystem::resize_file(directory + "/4711.1.process", 100);
  EXPECT_FALSE(ProcessFile::read(directory + "/4711.1.process"));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace gpufence::journal
