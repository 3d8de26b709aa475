// Sizes are read with integers only: a double would make 8589934593B into 8589934592B.
#include "policies/size.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace gpufence::policies {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view strip(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

constexpr const char* kUnits = "write a number with a unit: 8GiB, 512MiB, 1.5TiB";

// "8", "8.25": the two parts of a decimal number; nothing else is one.
struct Decimal {
  std::string_view whole, fraction;
};

std::optional<Decimal> split_decimal(std::string_view text) {
  Decimal number;
  std::size_t at = 0;
  while (at < text.size() && is_digit(text[at])) ++at;
  number.whole = text.substr(0, at);
  if (at < text.size()) {
    if (text[at] != '.') return std::nullopt;
    number.fraction = text.substr(at + 1);
    if (number.fraction.empty() || !std::all_of(number.fraction.begin(), number.fraction.end(), is_digit))
      return std::nullopt;
  }
  if (number.whole.empty() && number.fraction.empty()) return std::nullopt;
  return number;
}

std::optional<unsigned> unit_shift(std::string_view unit) {
  if (unit == "B" || unit == "b") return 0;
  if (unit.empty()) return std::nullopt;
  unsigned shift = 0;
  switch (unit.front()) {
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    case 't':
    case 'T':
      shift = 40;
      break;
    default:
      return std::nullopt;
  }
  unit.remove_prefix(1);
  if (!unit.empty() && (unit.front() == 'i' || unit.front() == 'I')) unit.remove_prefix(1);
  if (!unit.empty() && (unit.front() == 'b' || unit.front() == 'B')) unit.remove_prefix(1);
  if (!unit.empty()) return std::nullopt;
  return shift;
}

// Elsewhere 0 means "no limit", here it would mean "nothing at all": neither is taken for the other.
Error no_cap(std::string_view text, const char* no_gpu) {
  return {std::string(text), "would leave nothing", std::string("write unlimited for no cap, or ") + no_gpu};
}

tl::expected<double, Error> parse_percent(std::string_view text, const char* no_gpu) {
  const std::string_view number = strip(text.substr(0, text.size() - 1));
  double percent = 0;
  if (!split_decimal(number)) {
    return tl::unexpected(Error{std::string(text), "is no percentage", "write 50% or 12.5%"});
  }
  const auto end = std::from_chars(number.data(), number.data() + number.size(), percent);
  if (end.ec != std::errc{} || end.ptr != number.data() + number.size() || !std::isfinite(percent) ||
      percent > 100)
    return tl::unexpected(Error{std::string(text), "is more than the whole card", "write at most 100%"});
  if (percent <= 0) return tl::unexpected(no_cap(text, no_gpu));
  return percent;
}

bool is_zero(std::string_view text) {
  const auto number = split_decimal(text);
  const auto zeros = [](std::string_view digits) {
    return std::all_of(digits.begin(), digits.end(), [](char c) { return c == '0'; });
  };
  return number && zeros(number->whole) && zeros(number->fraction);
}

tl::expected<Amount, Error> parse_single(std::string_view text, const char* no_gpu) {
  if (text == "unlimited") return Amount{};
  if (is_zero(text)) return tl::unexpected(no_cap(text, no_gpu));
  if (!text.empty() && text.back() == '%') {
    auto percent = parse_percent(text, no_gpu);
    if (!percent) return tl::unexpected(percent.error());
    return Amount{.kind = Amount::Kind::percent, .percent = *percent};
  }
  auto bytes = parse_size(text);
  if (!bytes) return tl::unexpected(bytes.error());
  if (*bytes == 0) return tl::unexpected(no_cap(text, no_gpu));
  return Amount{.kind = Amount::Kind::bytes, .bytes = *bytes};
}

// `no_gpu`: what to write who wants nothing to be left.
tl::expected<Amount, Error> parse_amount(std::string_view text, const char* no_gpu) {
  Amount amount;
  while (true) {
    const std::size_t both = text.find('&');
    auto part = parse_single(strip(text.substr(0, both)), no_gpu);
    if (!part) return part;
    amount = tighter(amount, *part);
    if (both == std::string_view::npos) return amount;
    text.remove_prefix(both + 1);
  }
}

}  // namespace

tl::expected<std::uint64_t, Error> parse_size(std::string_view text) {
  const std::string_view asked = strip(text);
  if (asked.empty()) return tl::unexpected(Error{"a size", "is empty", kUnits});
  if (asked.front() == '-' && asked.size() > 1 && (is_digit(asked[1]) || asked[1] == '.'))
    return tl::unexpected(Error{std::string(asked), "is negative", kUnits});

  std::size_t end = 0;
  while (end < asked.size() && (is_digit(asked[end]) || asked[end] == '.')) ++end;
  const auto number = split_decimal(asked.substr(0, end));
  const std::string_view unit = strip(asked.substr(end));
  if (!number) return tl::unexpected(Error{std::string(asked), "is no size", kUnits});
  if (unit.empty()) {
    const std::string meant = std::string(asked) + "GiB";
    return tl::unexpected(
        Error{std::string(asked), "has no unit",
              parse_size(meant).value_or(0) > 0 ? "write " + meant + " if that is meant" : kUnits});
  }
  const auto shift = unit_shift(unit);
  if (!shift)
    return tl::unexpected(Error{std::string(asked), "has the unknown unit " + quoted(unit),
                                "units are K, M, G and T (binary), or B for bytes"});

  const Error too_large{std::string(asked), "is more than 64 bits hold", "write unlimited for no cap"};
  std::uint64_t whole = 0;
  for (const char digit : number->whole) {
    const auto value = static_cast<std::uint64_t>(digit - '0');
    if (whole > (kMost - value) / 10) return tl::unexpected(too_large);
    whole = whole * 10 + value;
  }
  if (*shift > 0 && whole > (kMost >> *shift)) return tl::unexpected(too_large);
  whole <<= *shift;
  // floor((floor(x) + n) / 10) is floor((x + n) / 10) for whole n: cutting off at each digit loses nothing.
  std::uint64_t fraction = 0;
  for (auto digit = number->fraction.rbegin(); digit != number->fraction.rend(); ++digit)
    fraction = (fraction + (static_cast<std::uint64_t>(*digit - '0') << *shift)) / 10;
  if (whole > kMost - fraction) return tl::unexpected(too_large);
  return whole + fraction;
}

std::string format_size(std::uint64_t bytes) {
  static constexpr const char* kNames[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  unsigned unit = 0;
  while (unit < 4 && (bytes >> (10 * (unit + 1))) != 0) ++unit;
  const std::uint64_t whole = bytes >> (10 * unit);
  const std::uint64_t rest = bytes - (whole << (10 * unit));
  if (bytes == 1) return "1 byte";
  if (rest == 0) return std::to_string(whole) + ' ' + kNames[unit];
  // Rounded, but never up to the next whole unit: "8.0 of 8 GiB held" must not stand where much is still
  // free.
  const std::uint64_t half = std::uint64_t{1} << (10 * unit - 1);
  const std::uint64_t tenth = std::min<std::uint64_t>((rest * 10 + half) >> (10 * unit), 9);
  return std::to_string(whole) + '.' + std::to_string(tenth) + ' ' + kNames[unit];
}

std::uint64_t Amount::resolve(std::uint64_t card_total) const {
  const auto share = [&] {
    const long double exact =
        static_cast<long double>(card_total) * static_cast<long double>(percent) / 100.0L;
    return std::min(card_total, static_cast<std::uint64_t>(std::floor(exact)));
  };
  switch (kind) {
    case Kind::unlimited:
      return kMost;
    case Kind::bytes:
      return bytes;
    case Kind::percent:
      return share();
    case Kind::both:
      return std::min(bytes, share());
  }
  return kMost;
}

Amount CapSpec::at(int position) const {
  const auto own = by_position.find(position);
  if (own != by_position.end()) return own->second;
  return every.value_or(Amount{});
}

bool CapSpec::caps_anything() const {
  const auto caps = [](const Amount& amount) { return amount.kind != Amount::Kind::unlimited; };
  return (every && caps(*every)) || std::any_of(by_position.begin(), by_position.end(),
                                                [&](const auto& own) { return caps(own.second); });
}

tl::expected<CapSpec, Error> parse_caps(std::string_view text) {
  const std::string_view asked = strip(text);
  if (asked.empty()) return tl::unexpected(Error{"a cap", "is empty", kUnits});
  CapSpec caps;
  std::string_view rest = asked;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view entry = strip(rest.substr(0, comma));
    const std::size_t equals = entry.find('=');
    if (entry.empty())
      return tl::unexpected(Error{std::string(asked), "has an empty entry", "write 8GiB or 0=8GiB,1=4GiB"});
    if (equals == std::string_view::npos) {
      auto amount = parse_amount(entry, "--devices none for no GPU");
      if (!amount) return tl::unexpected(amount.error());
      if (caps.every)
        return tl::unexpected(Error{std::string(asked), "has two caps for every GPU",
                                    "write 0=8GiB,1=4GiB for caps by position"});
      caps.every = *amount;
    } else {
      const std::string_view where = strip(entry.substr(0, equals));
      int position = 0;
      const auto end = std::from_chars(where.data(), where.data() + where.size(), position);
      if (where.empty() || !is_digit(where.front()) || end.ec != std::errc{} ||
          end.ptr != where.data() + where.size())
        return tl::unexpected(Error{std::string(entry), "doesn't begin with a position in the view",
                                    "write 0=8GiB for the first GPU, 1=4GiB for the second"});
      auto amount = parse_amount(strip(entry.substr(equals + 1)), "leave that GPU out of --devices");
      if (!amount) return tl::unexpected(amount.error());
      if (!caps.by_position.emplace(position, *amount).second)
        return tl::unexpected(Error{std::string(asked),
                                    "caps position " + std::to_string(position) + " twice", "write it once"});
    }
    if (comma == std::string_view::npos) return caps;
    rest.remove_prefix(comma + 1);
  }
}

std::string to_text(const Amount& amount) {
  const auto bytes = [&] {
    static constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    while (unit < 4 && amount.bytes != 0 &&
           (amount.bytes & ((std::uint64_t{1} << (10 * (unit + 1))) - 1)) == 0)
      ++unit;
    return std::to_string(amount.bytes >> (10 * unit)) + kNames[unit];
  };
  const auto percent = [&] {
    char digits[400];  // fixed notation, which is what parse_percent reads
    const auto end = std::to_chars(digits, digits + sizeof digits, amount.percent, std::chars_format::fixed);
    return std::string(digits, end.ptr) + '%';
  };
  switch (amount.kind) {
    case Amount::Kind::unlimited:
      return "unlimited";
    case Amount::Kind::bytes:
      return bytes();
    case Amount::Kind::percent:
      return percent();
    case Amount::Kind::both:
      return bytes() + '&' + percent();
  }
  return "unlimited";
}

std::string to_text(const CapSpec& caps) {
  std::string text = caps.every ? to_text(*caps.every) : std::string{};
  for (const auto& [position, amount] : caps.by_position) {
    if (!text.empty()) text += ',';
    text += std::to_string(position) + '=' + to_text(amount);
  }
  return text.empty() ? "unlimited" : text;
}

std::string describe(const Amount& amount) {
  const auto percent = [&] {
    char digits[64];
    std::snprintf(digits, sizeof digits, "%g", amount.percent);
    return std::string(digits) + " %";
  };
  switch (amount.kind) {
    case Amount::Kind::unlimited:
      return "unlimited";
    case Amount::Kind::bytes:
      return format_size(amount.bytes);
    case Amount::Kind::percent:
      return percent();
    case Amount::Kind::both:
      return format_size(amount.bytes) + " and at most " + percent();
  }
  return "unlimited";
}

Amount tighter(const Amount& one, const Amount& other) {
  const auto has_bytes = [](const Amount& a) {
    return a.kind == Amount::Kind::bytes || a.kind == Amount::Kind::both;
  };
  const auto has_percent = [](const Amount& a) {
    return a.kind == Amount::Kind::percent || a.kind == Amount::Kind::both;
  };
  Amount both;
  const bool bytes = has_bytes(one) || has_bytes(other);
  const bool percent = has_percent(one) || has_percent(other);
  if (bytes)
    both.bytes = std::min(has_bytes(one) ? one.bytes : kMost, has_bytes(other) ? other.bytes : kMost);
  if (percent)
    both.percent =
        std::min(has_percent(one) ? one.percent : 100.0, has_percent(other) ? other.percent : 100.0);
  both.kind = bytes && percent ? Amount::Kind::both
              : bytes          ? Amount::Kind::bytes
              : percent        ? Amount::Kind::percent
                               : Amount::Kind::unlimited;
  return both;
}

CapSpec tighter(const CapSpec& one, const CapSpec& other) {
  CapSpec both;
  if (one.every || other.every)
    both.every = tighter(one.every.value_or(Amount{}), other.every.value_or(Amount{}));
  for (const auto& spec : {one, other})
    for (const auto& [position, amount] : spec.by_position)
      both.by_position[position] = tighter(one.at(position), other.at(position));
  return both;
}

}  // namespace gpufence::policies
