// See record.h.
#include "journal/record.h"

#include <fmt/format.h>
#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "journal/stack.h"

namespace gpufence::journal {
namespace {

using nlohmann::json;

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

json number_or_null(const std::optional<std::uint64_t>& number) {
  return number ? json(*number) : json(nullptr);
}

json gpu(const Gpu& gpu) {
  if (gpu.uuid.empty()) return nullptr;
  return {{"ordinal", gpu.ordinal >= 0 ? json(gpu.ordinal) : json(nullptr)},
          {"host_index", gpu.host_index >= 0 ? json(gpu.host_index) : json(nullptr)},
          {"uuid", gpu.uuid},
          {"pci", text_or_null(gpu.pci)},
          {"name", text_or_null(gpu.name)}};
}

json frame(const Site& site) {
  return {{"object", text_or_null(site.object)},
          {"build_id", text_or_null(site.build_id)},
          {"symbol", text_or_null(site.symbol)},
          {"offset", site.offset}};
}

json site(const Site& site) {
  return site.object.empty() ? json(nullptr) : frame(site);
}

json stack(const std::vector<Site>& frames) {
  json out;
  for (const Site& one : frames) out.push_back(frame(one));
  return out;
}

json python(const std::vector<PythonFrame>& frames) {
  json out;
  for (const PythonFrame& one : frames)
    out.push_back({{"file", one.file},
                   {"line", one.line > 0 ? json(one.line) : json(nullptr)},
                   {"function", one.function}});
  return out;
}

std::string text_of(const json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::vector<Site> read_stack(const json& frames) {
  std::vector<Site> out;
  for (const json& frame : frames) {
    if (!frame.is_object()) continue;
    Site one{.object = text_of(frame, "object"), .symbol = text_of(frame, "symbol")};
    if (const auto offset = frame.find("offset"); offset != frame.end() && offset->is_number_unsigned())
      one.offset = offset->get<std::uint64_t>();
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<PythonFrame> read_python(const json& frames) {
  std::vector<PythonFrame> out;
  for (const json& frame : frames) {
    if (!frame.is_object()) continue;
    PythonFrame one{text_of(frame, "file"), text_of(frame, "function")};
    if (const auto line = frame.find("line"); line != frame.end() && line->is_number_integer())
      one.line = line->get<int>();
    out.push_back(std::move(one));
  }
  return out;
}

std::string key_of(const std::string& code, const json& site, const json& python, const json& device,
                   const json& other, const std::string& message, const std::string& otherwise) {
  // A refusal is said once a run on each GPU, wherever it is asked from.
  if (code.starts_with("GF401") && device.is_object()) return code + ' ' + text_of(device, "uuid");
  // Masks and ordinals that are wrong in different ways are asked for at one place.
  const bool by_words = !code.starts_with("GF102") && code.starts_with("GF10");
  if (!site.is_object() || by_words) return code + ' ' + otherwise;
  std::string key = code + ' ' + text_of(site, "object") + '+' + site.value("offset", json(0)).dump();
  // All of Python's calls come from one place in libffi.
  if (python.is_array() && !python.empty() && python[0].is_object())
    key += ' ' + text_of(python[0], "file") + ':' + python[0].value("line", json()).dump();
  // An extra context is the same fault wherever each process of a job works.
  const bool by_one = code.starts_with("GF202");
  for (const json* one : {&device, &other})
    key += ' ' + (one->is_object() && (one == &device || !by_one) ? text_of(*one, "uuid") : "");
  // Without optimisation all launches of a program are one place, nvcc's own; the words name the kernel.
  if (code.starts_with("GF203") || code.starts_with("GF205"))
    key += ' ' + message.substr(0, message.find(';'));
  return key;
}

}  // namespace

std::string time_text(std::uint64_t ns_since_1970) {
  const auto seconds = static_cast<std::time_t>(ns_since_1970 / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> day{}, fraction{};
  (void)std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  (void)std::snprintf(fraction.data(), fraction.size(), ".%06uZ",
                      static_cast<unsigned>(ns_since_1970 % 1'000'000'000 / 1000));
  return std::string(day.data()) + fraction.data();
}

std::string key_of(const Finding& finding) {
  // A note that became a warning is said again.
  return key_of(std::string(finding.code) + ' ' + std::string(text(finding.severity)), site(finding.site),
                python(finding.python), gpu(finding.device), gpu(finding.other_device), finding.message,
                finding.once.empty() ? finding.message : finding.once);
}

std::string to_json_line(const Finding& finding, const Speaker& speaker, std::uint64_t count) {
  // One after the other: as one list each part would have a place of its own on the stack, which may be
  // small.
  json record = json::object();
  const auto put = [&record](const char* key, json value) { record[key] = std::move(value); };
  put("schema", 1);
  put("time", time_text(speaker.time_ns));
  put("run_id", text_or_null(speaker.run_id));
  put("pid", speaker.pid);
  put("tid", finding.tid > 0 ? json(finding.tid) : json(nullptr));
  put("thread", text_or_null(finding.thread));
  put("rank", text_or_null(speaker.rank));
  put("code", text_or_null(finding.code));
  put("severity", text(finding.severity));
  put("message", finding.message);
  put("api", text_or_null(finding.api));
  put("site", site(finding.site));
  put("stack", stack(finding.stack));
  put("python", python(finding.python));
  put("device", gpu(finding.device));
  put("other_device", gpu(finding.other_device));
  put("bytes", number_or_null(finding.bytes));
  put("held", number_or_null(finding.held));
  put("cap", number_or_null(finding.cap));
  put("scope", text_or_null(finding.scope));
  put("rule", text_or_null(finding.rule));
  put("count", count);
  // Names of threads, files and GPUs need not be UTF-8.
  return record.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

std::string to_json_line_within(const Finding& finding, const Speaker& speaker, std::uint64_t count,
                                std::size_t most) {
  std::string line = to_json_line(finding, speaker, count);
  Finding shorter;
  if (line.size() > most) shorter = finding;
  while (line.size() > most && shorter.stack.size() + shorter.python.size() > 0) {
    if (shorter.stack.size() >= shorter.python.size())
      shorter.stack.pop_back();
    else
      shorter.python.pop_back();
    line = to_json_line(shorter, speaker, count);
  }
  return line;
}

std::vector<Record> read_records(std::string_view text) {
  std::vector<Record> records;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // torn
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const json read = json::parse(line, nullptr, false);
    if (!read.is_object() || read.value("schema", json()) != 1) continue;
    Record record;
    record.code = text_of(read, "code");
    if (record.code.empty()) continue;
    record.run_id = text_of(read, "run_id");
    record.time = text_of(read, "time");
    record.severity = text_of(read, "severity");
    record.message = text_of(read, "message");
    if (const auto pid = read.find("pid"); pid != read.end() && pid->is_number_integer())
      record.pid = pid->get<int>();
    if (const auto count = read.find("count"); count != read.end() && count->is_number_unsigned())
      record.count = count->get<std::uint64_t>();
    if (const auto bytes = read.find("bytes"); bytes != read.end() && bytes->is_number_unsigned())
      record.bytes = bytes->get<std::uint64_t>();
    const auto part = [&](const char* key) {
      const auto found = read.find(key);
      return found == read.end() ? json() : *found;
    };
    record.key = key_of(record.code + ' ' + record.severity, part("site"), part("python"), part("device"),
                        part("other_device"), record.message, record.message);
    record.stack = stack_text(read_stack(part("stack")), read_python(part("python")));
    record.line = line;
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace gpufence::journal
