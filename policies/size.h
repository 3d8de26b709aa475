// Sizes and caps, in the words of the command line. All units are binary (8G, 8GB and 8GiB are 2^33 bytes)
// and a bare number is refused: of "8" nobody knows whether bytes, megabytes or gigabytes were meant. A cap
// is said per position in the view, never per host GPU; to_text() is exact, so that what the launcher puts
// into the environment is what the core reads back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "policies/error.h"

namespace gpufence::policies {

// "8GiB", "1.5 GiB", "512M", "4096B" → bytes. Fractions of a byte are cut off.
[[nodiscard]] tl::expected<std::uint64_t, Error> parse_size(std::string_view text);

// For people: "8 GiB", "7.1 GiB", "512 MiB", "300 bytes". Exact multiples carry no decimals.
[[nodiscard]] std::string format_size(std::uint64_t bytes);

struct Amount {
  enum class Kind {
    unlimited,
    bytes,
    percent,
    both,  // the smaller of bytes and percent: what a run inside a run may come to
  };
  Kind kind = Kind::unlimited;
  std::uint64_t bytes = 0;
  double percent = 0;  // of the card's (or slice's) total

  // Bytes that may be held on a card of this total; UINT64_MAX when unlimited.
  [[nodiscard]] std::uint64_t resolve(std::uint64_t card_total) const;
  bool operator==(const Amount&) const = default;
};

struct CapSpec {
  std::optional<Amount> every;        // each GPU that by_position doesn't name
  std::map<int, Amount> by_position;  // position in the view = CUDA ordinal

  // The cap of the GPU at this position; unlimited where nothing is said.
  [[nodiscard]] Amount at(int position) const;
  // Whether any position is capped at all.
  [[nodiscard]] bool caps_anything() const;
  bool operator==(const CapSpec&) const = default;
};

// `8GiB` · `50%` · `unlimited` · `0=8GiB,1=4GiB` · `8GiB,0=4GiB` (every GPU 8 GiB, except the first) ·
// `8GiB&50%` (both hold). Zero is refused: elsewhere it means "no limit".
[[nodiscard]] tl::expected<CapSpec, Error> parse_caps(std::string_view text);

// Reads back as the same value.
[[nodiscard]] std::string to_text(const Amount& amount);
[[nodiscard]] std::string to_text(const CapSpec& caps);

// For people: "8 GiB", "50 %", "unlimited", "8 GiB and at most 50 %".
[[nodiscard]] std::string describe(const Amount& amount);

// Both rules at once: at every position the one that allows less.
[[nodiscard]] Amount tighter(const Amount& one, const Amount& other);
[[nodiscard]] CapSpec tighter(const CapSpec& one, const CapSpec& other);

}  // namespace gpufence::policies
