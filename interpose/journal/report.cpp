// See report.h.
#include "journal/report.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "journal/record.h"

namespace gpufence::journal {
namespace {

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

}  // namespace

std::optional<double> memory_share(const Report& report, const ReportRow& row) {
  double all = 0;
  for (const ReportRow& one : report.rows) all += static_cast<double>(one.peak);
  if (!row.counted || all == 0) return std::nullopt;
  return static_cast<double>(row.peak) / all;
}

std::optional<double> work_share(const Report& report, const ReportRow& row) {
  const auto done = [](const ReportRow& one) { return one.launches.value_or(0) + one.copies.value_or(0); };
  std::uint64_t all = 0;
  for (const ReportRow& one : report.rows) all += done(one);
  if (all == 0) return std::nullopt;
  return static_cast<double>(done(row)) / static_cast<double>(all);
}

void note_idle_gpus(Report& report) {
  std::string busy, idle;
  std::size_t used = 0;
  for (const ReportRow& row : report.rows) {
    if (!row.launches) return;  // not counted
    const bool worked = *row.launches + row.copies.value_or(0) + row.threads.value_or(0) +
                            (row.counted ? row.allocations : 0) >
                        0;
    used += worked ? 1 : 0;
    (worked ? busy : idle) += ((worked ? busy : idle).empty() ? "" : ", ") + row.full_name;
  }
  if (used != 1 || report.rows.size() < 2) return;
  report.findings["GF208"] = 1;
  report.notes.push_back("GF208: all work was on " + busy + "; " + idle + " did nothing");
}

std::string to_text(const Report& report) {
  const std::string lead = fmt::format("gpufence[{}] report: ", report.pid);
  std::string out = lead + report.program;
  if (report.ended)
    out += fmt::format(", {:.2f} s", seconds(report.duration_ns));
  else
    out += report.running ? ", still running" : ", ended by a signal, _exit or exec";
  if (!report.run_id.empty()) out += fmt::format(", run {}", report.run_id);
  out += fmt::format("\n  fenced since the first CUDA call at +{:.2f} s: {}; reach: {}\n",
                     seconds(report.fenced_after_ns), report.how, report.reach);
  if (report.rows.empty()) out += "  no GPU was visible\n";
  std::vector<std::array<std::string, 9>> table;
  if (!report.rows.empty()) {
    table.push_back({"GPU", "peak held", "cap", "allocations", "refusals", "launches", "copies", "threads",
                     "first chosen by"});
  }
  for (const ReportRow& row : report.rows) {
    // What is not counted is a dash, never a zero.
    const auto counted = [&](const std::string& text) { return row.counted ? text : std::string("–"); };
    const auto worked = [](const std::optional<std::uint64_t>& count) {
      return count ? std::to_string(*count) : std::string("–");
    };
    table.push_back({row.full_name, counted(row.peak_text), row.cap ? row.cap_text : "–",
                     counted(std::to_string(row.allocations)), counted(std::to_string(row.refusals)),
                     worked(row.launches), worked(row.copies), worked(row.threads),
                     row.chosen_by.empty() ? "never" : row.chosen_by});
  }
  // Widths count characters, not bytes: the dash is three bytes.
  const auto width = [](const std::string& text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  std::array<std::size_t, 9> widths{};
  for (const auto& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  for (const auto& line : table) {
    out += "  ";
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string pad(widths[i] - width(line[i]), ' ');
      const bool left = i == 0 || i + 1 == line.size();
      out += left ? line[i] + (i + 1 == line.size() ? "" : pad) : pad + line[i];
      if (i + 1 < line.size()) out += "  ";
    }
    out += '\n';
  }
  for (const auto& [title, share_of] :
       {std::pair{"  share of memory:", &memory_share}, std::pair{"  share of work:", &work_share}}) {
    std::string shares;
    for (const ReportRow& row : report.rows) {
      if (const auto share = share_of(report, row))
        shares += fmt::format("{} CUDA {} {:.0f} %", shares.empty() ? "" : ",", row.ordinal, 100 * *share);
    }
    if (report.rows.size() > 1 && !shares.empty()) out += title + shares + '\n';
  }
  out += "  findings:";
  if (report.findings.empty()) out += " none";
  for (const auto& [code, count] : report.findings) out += fmt::format(" {} ×{}", code, count);
  out += '\n';
  for (const std::string& note : report.notes) out += "  " + note + '\n';
  return out;
}

std::string to_json_line(const Report& report) {
  using nlohmann::json;
  json rows = json::array();
  for (const ReportRow& row : report.rows) {
    const auto counted = [&](std::uint64_t count) { return row.counted ? json(count) : json(nullptr); };
    const auto share = memory_share(report, row);
    const auto work = work_share(report, row);
    rows.push_back({{"ordinal", row.ordinal},
                    {"host_index", row.host_index >= 0 ? json(row.host_index) : json(nullptr)},
                    {"uuid", row.uuid},
                    {"pci", row.pci},
                    {"name", row.name},
                    {"peak_bytes", counted(row.peak)},
                    {"memory_share", share ? json(*share) : json(nullptr)},
                    {"cap_bytes", row.cap ? json(*row.cap) : json(nullptr)},
                    {"cap_rule", row.cap ? json(row.cap_rule) : json(nullptr)},
                    {"allocations", counted(row.allocations)},
                    {"refusals", counted(row.refusals)},
                    {"work_share", work ? json(*work) : json(nullptr)},
                    {"launches", row.launches ? json(*row.launches) : json(nullptr)},
                    {"copies", row.copies ? json(*row.copies) : json(nullptr)},
                    {"threads", row.threads ? json(*row.threads) : json(nullptr)},
                    {"chosen_by", row.chosen_by.empty() ? json(nullptr) : json(row.chosen_by)}});
  }
  const json record = {{"schema", 1},
                       {"kind", "report"},
                       {"run_id", report.run_id.empty() ? json(nullptr) : json(report.run_id)},
                       {"pid", report.pid},
                       {"program", report.program},
                       {"began", report.began_ns != 0 ? json(time_text(report.began_ns)) : json(nullptr)},
                       {"state", report.ended     ? "ended"
                                 : report.running ? "running"
                                                  : "cut off"},
                       {"duration_ns", report.ended ? json(report.duration_ns) : json(nullptr)},
                       {"fenced_after_ns", report.fenced_after_ns},
                       {"how", report.how},
                       {"reach", report.reach},
                       {"gpus", rows},
                       {"findings", report.findings},
                       {"notes", report.notes}};
  // A program's name need not be UTF-8.
  return record.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace gpufence::journal
