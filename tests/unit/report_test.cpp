// The exit report as text and as a JSON line.
#include "journal/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

using gpufence::journal::note_idle_gpus;
using gpufence::journal::Report;
using gpufence::journal::ReportRow;
using gpufence::journal::to_json_line;
using gpufence::journal::to_text;

namespace {

Report sample() {
  Report report;
  report.program = "train.py --epochs 3";
  report.run_id = "20261130-184501-12345";
  report.pid = 4711;
  report.how = "driver calls";
  report.reach = "this process";
  report.duration_ns = 1'500'000'000;
  report.fenced_after_ns = 40'000'000;
  ReportRow row;
  row.host_index = 2;
  row.uuid = "GPU-8f3a0102-0304-0506-0708-090a0b0c0dff";
  row.pci = "0000:81:00.0";
  row.name = "NVIDIA H100";
  row.full_name = "CUDA 0 = host GPU 2 (H100, 0000:81:00.0)";
  row.peak = 1ull << 30;
  row.peak_text = "1 GiB";
  row.cap = 1ull << 30;
  row.cap_text = "1 GiB";
  row.cap_rule = "--gpu-mem";
  row.allocations = 5;
  row.refusals = 1;
  row.chosen_by = "cudaSetDevice at app+0x10 (main)";
  report.rows.push_back(row);
  report.findings["GF401"] = 1;
  return report;
}

}  // namespace

TEST(Report, TheTextHasARowForEachGpuAndTheFindings) {
  EXPECT_EQ(to_text(sample()),
            "gpufence[4711] report: train.py --epochs 3, 1.50 s, run 20261130-184501-12345\n"
            "  fenced since the first CUDA call at +0.04 s: driver calls; reach: this process\n"
            "  GPU                                       peak held    cap  allocations  refusals  launches  "
            "copies  threads  first chosen by\n"
            "  CUDA 0 = host GPU 2 (H100, 0000:81:00.0)      1 GiB  1 GiB            5         1         –   "
            "    –        –  cudaSetDevice at app+0x10 (main)\n"
            "  findings: GF401 ×1\n");
}

TEST(Report, WithoutAGpuItSaysSo) {
  Report report = sample();
  report.rows.clear();
  report.findings.clear();
  EXPECT_NE(to_text(report).find("no GPU was visible"), std::string::npos);
  EXPECT_NE(to_text(report).find("findings: none"), std::string::npos);
}

TEST(Report, TheJsonIsOneLineWithEveryKey) {
  const std::string line = to_json_line(sample());
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto record = nlohmann::json::parse(line);
  EXPECT_EQ(record["schema"], 1);
  EXPECT_EQ(record["gpus"][0]["host_index"], 2);
  EXPECT_EQ(record["gpus"][0]["cap_bytes"], 1073741824);
  EXPECT_EQ(record["gpus"][0]["refusals"], 1);
  EXPECT_TRUE(record["gpus"][0]["launches"].is_null());
  EXPECT_EQ(record["findings"]["GF401"], 1);
}

TEST(Report, WhatIsUnknownIsNull) {
  Report report = sample();
  report.run_id.clear();
  report.rows[0].cap.reset();
  report.rows[0].host_index = -1;
  const auto record = nlohmann::json::parse(to_json_line(report));
  EXPECT_TRUE(record["run_id"].is_null());
  EXPECT_TRUE(record["gpus"][0]["cap_bytes"].is_null());
  EXPECT_TRUE(record["gpus"][0]["cap_rule"].is_null());
  EXPECT_TRUE(record["gpus"][0]["host_index"].is_null());
}

TEST(Report, AProgramNameThatIsNoUtf8StillMakesAJsonLine) {
  Report report = sample();
  report.program = "train\xff.py";
  EXPECT_FALSE(nlohmann::json::parse(to_json_line(report))["program"].get<std::string>().empty());
}

TEST(Report, TellsHowMemoryWasSharedOutAndHowTheProcessEnded) {
  Report report = sample();
  report.rows.push_back(report.rows[0]);
  report.rows[1].ordinal = 1;
  report.rows[1].peak = (1ull << 30) / 3;
  EXPECT_NE(to_text(report).find("\n  share of memory: CUDA 0 75 %, CUDA 1 25 %\n"), std::string::npos)
      << to_text(report);
  EXPECT_EQ(nlohmann::json::parse(to_json_line(report)).at("state"), "ended");
  report.ended = false;
  report.rows[0].counted = report.rows[1].counted = false;
  EXPECT_TRUE(
      to_text(report).starts_with("gpufence[4711] report: train.py --epochs 3, ended by a signal, _exit or "
                                  "exec, run 20261130-184501-12345\n"));
  EXPECT_EQ(to_text(report).find("share of memory"), std::string::npos);
  const auto read = nlohmann::json::parse(to_json_line(report));
  EXPECT_EQ(read.at("state"), "cut off");
  EXPECT_EQ(read.at("duration_ns"), nullptr);
  EXPECT_EQ(read.at("gpus")[0].at("peak_bytes"), nullptr);
  EXPECT_EQ(read.at("gpus")[0].at("memory_share"), nullptr);
}

TEST(Report, SharesAndIdleGpusAreOfWhatWasCounted) {
  Report report = sample();
  report.rows.push_back(report.rows[0]);
  report.rows[1].ordinal = 1;
  report.rows[1].peak = 3ull << 30;
  EXPECT_NE(to_text(report).find("  share of memory: CUDA 0 25 %, CUDA 1 75 %\n  findings"),
            std::string::npos);
  note_idle_gpus(report);
  EXPECT_EQ(report.findings.count("GF208"), 0u);  // launches were not counted
  report.rows[0].launches = 30;
  report.rows[0].copies = 10;
  report.rows[1].launches = 0;
  report.rows[1].copies = 0;
  report.rows[1].allocations = 1;
  EXPECT_NE(to_text(report).find("  share of work: CUDA 0 100 %, CUDA 1 0 %\n"), std::string::npos);
  note_idle_gpus(report);
  EXPECT_EQ(report.findings.count("GF208"), 0u);  // memory was taken on both
  report.rows[1].allocations = 0;
  note_idle_gpus(report);
  EXPECT_EQ(report.findings.at("GF208"), 1u);
}
