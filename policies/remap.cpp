// See remap.h. Read strictly: a pair that is not understood would send a program to a GPU that nobody meant.
#include "policies/remap.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace gpufence::policies {
namespace {

constexpr const char* kRemedy = "write A=B,… with ordinals, such as 1=0, or wrap";

std::optional<int> ordinal(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

auto pair_of(const std::vector<std::pair<int, int>>& pairs, int asked) noexcept {
  return std::lower_bound(pairs.begin(), pairs.end(), asked,
                          [](const std::pair<int, int>& pair, int value) { return pair.first < value; });
}

}  // namespace

int Remap::real(int asked, int gpus) const noexcept {
  if (asked < 0) return asked;
  if (wrap) return gpus > 0 ? asked % gpus : asked;
  const auto found = pair_of(pairs, asked);
  return found != pairs.end() && found->first == asked ? found->second : asked;
}

int Remap::told(int real, int gpus, int last) const noexcept {
  if (real < 0) return real;
  if (last >= 0 && this->real(last, gpus) == real) return last;
  if (this->real(real, gpus) == real) return real;
  for (const auto& [asked, means] : pairs)
    if (means == real) return asked;
  return real;
}

int Remap::highest() const noexcept {
  int most = -1;
  for (const auto& [asked, means] : pairs) most = std::max(most, means);
  return most;
}

tl::expected<Remap, Error> parse_remap(std::string_view text) {
  Remap remap;
  if (text == "wrap") {
    remap.wrap = true;
    return remap;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view pair = text.substr(at, comma - at);
    at = comma + 1;
    const auto bad = [&](std::string why) {
      return tl::unexpected(Error{std::string(pair), std::move(why), kRemedy});
    };
    if (pair.empty()) return bad("is empty");
    if (pair == "wrap") return bad("stands beside pairs, and means every ordinal");
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return bad("is no pair");
    const auto asked = ordinal(pair.substr(0, equals));
    const auto means = ordinal(pair.substr(equals + 1));
    if (!asked || !means)
      return bad("has '" + std::string(!asked ? pair.substr(0, equals) : pair.substr(equals + 1)) +
                 "' where an ordinal belongs");
    const auto place = pair_of(remap.pairs, *asked);
    if (place != remap.pairs.end() && place->first == *asked)
      return bad("gives " + std::to_string(*asked) + " a second meaning");
    remap.pairs.insert(place, {*asked, *means});
  }
  return remap;
}

std::string to_text(const Remap& remap) {
  if (remap.wrap) return "wrap";
  std::string text;
  for (const auto& [asked, means] : remap.pairs)
    text += (text.empty() ? "" : ",") + std::to_string(asked) + '=' + std::to_string(means);
  return text;
}

}  // namespace gpufence::policies
