// See scopes.h. Every process opens its scopes in the same order, by kind and then by name, so that two that
// reserve in several at once never wait for each other.
#include "hooks/scopes.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <utility>

#include "ledger/scope_path.h"
#include "observe/process.h"

namespace gpufence::hooks {
namespace {

using policies::Scope;
constexpr std::chrono::milliseconds kToldAge{100};  // so long may a dead process's bytes still be told
constexpr std::size_t kSwept = 16;                  // files of past runs that a start looks at

// "a/b" of "a/b/c" for the second run from outside
std::string run_at(const std::string& run, unsigned level) {
  std::size_t end = 0;
  for (unsigned i = 0; i < level && end != std::string::npos; ++i) end = run.find('/', i == 0 ? 0 : end + 1);
  return level == 0 ? run : run.substr(0, end);
}

std::string path_of(const CapRule& rule, const Rules& to) {
  const Rules::Books& books = to.books;
  switch (rule.scope) {
    case Scope::process:
      break;
    case Scope::run:
      if (!books.run.empty())
        return ledger::scope_path(books.directory, ledger::kRunKind, books.user,
                                  run_at(books.run, rule.level));
      break;
    case Scope::job:
      if (!books.job.empty()) return ledger::scope_path(books.directory, "job", books.user, books.job);
      break;
    case Scope::user:
      return ledger::scope_path(books.directory, "user", books.user, "all");
    case Scope::group:
      return ledger::scope_path(books.directory, ledger::kGroupKind, books.user, rule.group);
  }
  return {};  // nobody to share with
}

std::optional<gid_t> group_id(const std::string& name) {
  // /etc/group alone: the C library's own look-up may ask a daemon and wait.
  const std::string all = observe::read_file("/etc/group");
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    const std::string line = all.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name + ':')) continue;
    const std::size_t number = line.find(':', name.size() + 1);
    if (number != std::string::npos)
      return static_cast<gid_t>(std::strtoul(line.c_str() + number + 1, nullptr, 10));
  }
  return std::nullopt;
}

// One file and the rules that it is for.
struct Books {
  Scope scope{};
  std::string path;
  std::vector<const CapRule*> rules;
};

std::vector<Books> books_of(const Rules& to) {
  std::map<std::pair<Scope, std::string>, Books> all;
  for (const CapRule& rule : to.caps) {
    const std::string path = path_of(rule, to);
    if (path.empty()) continue;
    Books& books = all[{rule.scope, path}];
    books.scope = rule.scope;
    books.path = path;
    books.rules.push_back(&rule);
  }
  std::vector<Books> list;
  for (auto& [key, books] : all) list.push_back(std::move(books));
  return list;
}

void count_alone(Visible& seen, const CapRule& rule, const Rules& to) {
  if (rule.over_all) return;
  for (std::size_t row = 0; row < seen.devices.size(); ++row) {
    const observe::Device& device = seen.devices[row];
    seen.own_caps[row].push_back(cap_on(device.uuid, static_cast<int>(row), device.total, rule, to));
  }
}

// Of a rule that counts over all GPUs: it is no share of any card.
std::uint64_t total_of(const CapRule& rule) {
  return rule.amounts.every.value_or(policies::Amount{}).resolve(UINT64_MAX);
}

}  // namespace

const char* name_of(Scope scope) {
  switch (scope) {
    case Scope::process:
      return "process";
    case Scope::run:
      return "run";
    case Scope::job:
      return "job";
    case Scope::user:
      return "user";
    case Scope::group:
      return "group";
  }
  return "";
}

std::string whose(const CapRule& rule, const Rules& to) {
  switch (rule.scope) {
    case Scope::process:
      break;
    case Scope::run:
      if (!to.books.run.empty()) return rule.level == 0 ? "this run" : "the run around this one";
      break;
    case Scope::job:
      if (!to.books.job.empty()) return "job " + to.books.job;
      break;
    case Scope::user:
      return "user " + std::to_string(to.books.user);
    case Scope::group:
      return "group " + rule.group;
  }
  return "this process";
}

std::optional<std::string> open_scopes(Visible& seen, const Rules& to) {
  const std::size_t rows = seen.devices.size();
  std::vector<std::string> uuids;
  for (const observe::Device& device : seen.devices) uuids.push_back(device.uuid);
  const std::vector<Books> all = books_of(to);
  // A cap that is shared with nobody is the process's own.
  for (const CapRule& rule : to.caps)
    if (path_of(rule, to).empty()) count_alone(seen, rule, to);
  if (std::any_of(all.begin(), all.end(), [](const Books& books) { return books.scope == Scope::run; }))
    ledger::sweep_runs(to.books.directory, to.books.user, kSwept);
  for (const Books& books : all) {
    ledger::ScopeBook::Options options;
    if (books.scope == Scope::group) {
      options.mode = 0660;
      options.group = group_id(books.rules.front()->group);
      if (!options.group)
        return "group " + books.rules.front()->group + ": /etc/group doesn't know it; name another";
    }
    auto book = ledger::ScopeBook::open(books.path, uuids, options);
    if (!book) return book.error();
    Visible::SharedCaps shared;
    shared.rule = books.rules.front();
    ledger::Limits limits;
    for (std::size_t row = 0; row < rows; ++row) {
      const observe::Device& device = seen.devices[row];
      std::vector<policies::Cap> caps;
      for (const CapRule* rule : books.rules) {
        if (rule->over_all) continue;
        caps.push_back(cap_on(device.uuid, static_cast<int>(row), device.total, *rule, to));
      }
      const policies::Cap* least = policies::tightest(caps);
      shared.on.push_back(least != nullptr ? *least : policies::Cap{});
      limits.row.push_back(shared.on.back().bytes);
    }
    for (const CapRule* rule : books.rules) {
      if (!rule->over_all) continue;
      const std::uint64_t bytes = total_of(*rule);
      if (bytes >= shared.total.bytes) continue;
      shared.total = {bytes, rule->scope, rule->rule};
      limits.total = bytes;
    }
    seen.shared.push_back(std::move(shared));
    seen.ledger->share(*std::move(book), std::move(limits));
  }
  return std::nullopt;
}

void count_alone(Visible& seen, const Rules& to) {
  for (const CapRule& rule : to.caps) count_alone(seen, rule, to);
}

Standing standing_on(const Visible& seen, std::uint32_t row) noexcept {
  Standing standing;
  const auto add = [&](const policies::Cap* cap, std::uint64_t held) {
    if (cap == nullptr || cap->bytes == UINT64_MAX) return;
    standing.left = std::min(standing.left, cap->bytes > held ? cap->bytes - held : 0);
    if (standing.cap != nullptr && standing.cap->bytes <= cap->bytes) return;
    standing.cap = cap;
    standing.held = held;
  };
  const ledger::Ledger& books = *seen.ledger;
  add(seen.own_cap(row), books.held(row));
  for (std::size_t at = 0; at < books.scopes(); ++at) {
    ledger::ScopeBook& book = books.scope(at);
    book.reap_if_older(kToldAge);
    add(&seen.shared[at].on[row], book.held(row));
    add(&seen.shared[at].total, book.held_in_total());
  }
  return standing;
}

Outside from_outside(const Rules& to, const std::string& uuid, int ordinal, std::uint64_t card_total) {
  Outside least;
  const auto add = [&](std::uint64_t cap, std::uint64_t held, const ledger::ScopeBook::Reading* reading) {
    if (cap == UINT64_MAX) return;
    least.left = std::min(least.left, cap > held ? cap - held : 0);
    if (cap >= least.cap) return;
    least.cap = cap;
    least.held = held;
    least.own = reading == nullptr;
    least.processes.clear();
    if (reading == nullptr) return;
    const std::uint64_t here = ledger::pid_namespace();
    for (const ledger::Holder& process : reading->processes)
      if (process.pid_namespace == here) least.processes[process.pid] = 0;
    for (const ledger::ScopeBook::Reading::Row& row : reading->rows)
      for (const ledger::Holder& holder : row.holders)
        if (row.uuid == uuid && holder.pid_namespace == here) least.processes[holder.pid] = holder.bytes;
  };
  for (const CapRule& rule : to.caps) {
    if (path_of(rule, to).empty() && !rule.over_all)
      add(cap_on(uuid, ordinal, card_total, rule, to).bytes, 0, nullptr);
  }
  for (const Books& books : books_of(to)) {
    const auto read = ledger::ScopeBook::read(books.path);
    const ledger::ScopeBook::Reading reading = read.value_or(ledger::ScopeBook::Reading{});
    std::uint64_t held = 0, total = 0;
    for (const ledger::ScopeBook::Reading::Row& row : reading.rows) {
      total += row.bytes;
      if (row.uuid == uuid) held = row.bytes;
    }
    for (const CapRule* rule : books.rules) {
      if (rule->over_all)
        add(total_of(*rule), total, &reading);
      else
        add(cap_on(uuid, ordinal, card_total, *rule, to).bytes, held, &reading);
    }
  }
  return least;
}

}  // namespace gpufence::hooks
