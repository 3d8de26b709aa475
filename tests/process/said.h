// What a program under the fence had to say, taken apart: lines of stderr, findings by code, the report. For
// tests of findings, which compare lines as a person reads them.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <regex>
#include <sstream>
#include <tuple>

#include <nlohmann/json.hpp>

#include "machines.h"

namespace gpufence::harness {

inline constexpr const char* kZero = "CUDA 0 = host GPU 2 (Gamma, 0000:81:00.0)";
inline constexpr const char* kOne = "CUDA 1 = host GPU 0 (Alpha, 0000:01:00.0)";

struct Said {
  Result result;
  std::vector<std::string> lines;               // of stderr, without the report
  std::map<std::string, std::uint64_t> counts;  // by code
  bool one_worked = false;                      // GF208, which stands in the report alone
  nlohmann::json gpus;
  std::vector<std::string> notes;
};

// Runs a probe as CUDA 0 and 1 = host GPUs 2 and 0, or on what `with` says.
inline Said run(Machine& m, const std::vector<std::string>& program, With with = {.devices = "2,0"}) {
  const std::filesystem::path report = m.directory() / "report.json";
  std::filesystem::remove(report);
  with.options.insert(with.options.end(), {"--report-file", report.string()});
  Said said;
  said.result = m.run(program, with);
  std::string line;
  for (const char c : said.result.err) {
    if (c != '\n') {
      line += c;
      continue;
    }
    said.lines.push_back(std::exchange(line, {}));
  }
  if (!line.empty()) said.lines.push_back(line);
  if (!std::filesystem::exists(report)) return said;
  // A line a process; a program ends after its children.
  std::istringstream records(read_file(report));
  while (std::getline(records, line)) {
    const auto told = nlohmann::json::parse(line);
    for (const auto& [code, count] : told.at("findings").items())
      said.counts[code] += count.get<std::uint64_t>();
    said.one_worked = said.counts.erase("GF208") == 1;
    said.gpus = told.at("gpus");
    said.notes = told.at("notes").get<std::vector<std::string>>();
  }
  return said;
}

// The records that runs on this machine left behind, of one code.
inline std::vector<nlohmann::json> records(const Machine& m, const std::string& code) {
  std::vector<nlohmann::json> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(m.directory() / "state")) {
    if (entry.path().filename() != "records.jsonl") continue;
    std::istringstream lines(read_file(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      found.push_back(nlohmann::json::parse(line));
      if (found.back().at("code") != code) found.pop_back();
    }
  }
  return found;
}

using Counts = std::map<std::string, std::uint64_t>;

// One line, which is the pattern: in it "@" stands for a place in the program, "%s" for what `parts` say.
inline testing::AssertionResult is_line(const Said& said, std::string pattern) {
  std::string escaped;
  for (const char c : "gpufence[@pid] " + pattern) {
    if (std::strchr("[](){}.*+?^$|\\", c) != nullptr) escaped += '\\';
    escaped += c;
  }
  for (const auto& [mark, meant] : {std::pair{"@pid", "[0-9]+"}, std::pair{"@", "[^ ]+\\+0x[0-9a-f]+"}}) {
    for (std::size_t at; (at = escaped.find(mark)) != std::string::npos;)
      escaped.replace(at, std::strlen(mark), meant);
  }
  if (said.lines.size() == 1 && std::regex_match(said.lines[0], std::regex(escaped)))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "stdout \"" << said.result.out << "\", stderr \"" << said.result.err
                                     << "\", wanted \"" << pattern << "\"";
}

inline std::string zero_and_one(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "#0") == 0 || text.compare(i, 2, "#1") == 0)
      out += text[++i] == '0' ? kZero : kOne;
    else
      out += text[i];
  }
  return out;
}

}  // namespace gpufence::harness
