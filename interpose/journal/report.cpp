// See report.h.
#include "journal/report.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gpufence::journal {
namespace {

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

}  // namespace

std::string to_text(const Report& report) {
  const std::string lead = fmt::format("gpufence[{}] report: ", report.pid);
  std::string out = fmt::format("{}{}, {:.2f} s", lead, report.program, seconds(report.duration_ns));
  if (!report.run_id.empty()) out += fmt::format(", run {}", report.run_id);
  out += fmt::format("\n  fenced since the first CUDA call at +{:.2f} s: {}; reach: {}\n",
                     seconds(report.fenced_after_ns), report.how, report.reach);
  if (report.rows.empty()) out += "  no GPU was visible\n";
  std::vector<std::array<std::string, 8>> table;
  if (!report.rows.empty()) {
    table.push_back(
        {"GPU", "peak held", "cap", "allocations", "refusals", "launches", "copies", "first chosen by"});
  }
  for (const ReportRow& row : report.rows) {
    // Launches and copies are not counted by this build: a dash, never a zero.
    table.push_back({row.full_name, row.peak_text, row.cap ? row.cap_text : "–",
                     std::to_string(row.allocations), std::to_string(row.refusals), "–", "–",
                     row.chosen_by.empty() ? "never" : row.chosen_by});
  }
  // Widths count characters, not bytes: the dash is three bytes.
  const auto width = [](const std::string& text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  std::array<std::size_t, 8> widths{};
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
    rows.push_back({{"ordinal", row.ordinal},
                    {"host_index", row.host_index >= 0 ? json(row.host_index) : json(nullptr)},
                    {"uuid", row.uuid},
                    {"pci", row.pci},
                    {"name", row.name},
                    {"peak_bytes", row.peak},
                    {"cap_bytes", row.cap ? json(*row.cap) : json(nullptr)},
                    {"cap_rule", row.cap ? json(row.cap_rule) : json(nullptr)},
                    {"allocations", row.allocations},
                    {"refusals", row.refusals},
                    {"launches", nullptr},
                    {"copies", nullptr},
                    {"chosen_by", row.chosen_by.empty() ? json(nullptr) : json(row.chosen_by)}});
  }
  const json record = {{"schema", 1},
                       {"kind", "report"},
                       {"run_id", report.run_id.empty() ? json(nullptr) : json(report.run_id)},
                       {"pid", report.pid},
                       {"program", report.program},
                       {"duration_ns", report.duration_ns},
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
