// What a program is told about a capped GPU, with literals in MiB.
#include "policies/tell.h"

#include <gtest/gtest.h>

namespace gpufence::policies {
namespace {

TEST(Tell, TotalIsTheCapAndUseIsWhatCountsAgainstIt) {
  EXPECT_EQ(tell({.total = 4096, .used = 900, .free = 3196}, 1024, 256),
            (Memory{.total = 1024, .used = 256, .free = 768}));
}

TEST(Tell, FreeIsNoMoreThanTheCardHasLeft) {
  EXPECT_EQ(tell({.total = 4096, .used = 4000, .free = 96}, 1024, 256),
            (Memory{.total = 1024, .used = 256, .free = 96}));
}

TEST(Tell, ACapBeyondTheCardTellsTheCard) {
  EXPECT_EQ(tell({.total = 4096, .used = 320, .free = 3776}, 65536, 256),
            (Memory{.total = 4096, .used = 256, .free = 3776}));
  EXPECT_EQ(tell({.total = 4096, .used = 320, .free = 3776}, UINT64_MAX, 256),
            (Memory{.total = 4096, .used = 256, .free = 3776}));
}

// A policy may tighten a cap below what is held already.
TEST(Tell, UseNeverExceedsTheTotal) {
  EXPECT_EQ(tell({.total = 4096, .used = 3000, .free = 1096}, 1024, 2048),
            (Memory{.total = 1024, .used = 1024, .free = 0}));
}

}  // namespace
}  // namespace gpufence::policies
