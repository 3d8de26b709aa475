// LD_PRELOAD, whatever stood in it before.
#include "tools/gpufence/preload.h"

#include <gtest/gtest.h>

namespace gpufence::command {
namespace {

constexpr const char* kGate = "/opt/gpufence/lib/libgpufence.so";

TEST(Preload, TheGateStandsBehindWhatTheUserHad) {
  EXPECT_EQ(preload_value(kGate, "", ""), "/opt/gpufence/lib/libgpufence.so");
  EXPECT_EQ(preload_value(kGate, "", "/lib/libjemalloc.so.2"),
            "/lib/libjemalloc.so.2:/opt/gpufence/lib/libgpufence.so");
  EXPECT_EQ(preload_value(kGate, "", "a.so b.so:c.so"), "a.so:b.so:c.so:/opt/gpufence/lib/libgpufence.so");
}

TEST(Preload, TheGateStandsThereOnce) {
  EXPECT_EQ(preload_value(kGate, "", "/opt/gpufence/lib/libgpufence.so:x.so"),
            "x.so:/opt/gpufence/lib/libgpufence.so");
  EXPECT_EQ(preload_value(kGate, "", "x.so:/elsewhere/libgpufence.so:"),
            "x.so:/opt/gpufence/lib/libgpufence.so");
}

TEST(Preload, ASanitizersRuntimeStandsBeforeTheGate) {
  EXPECT_EQ(preload_value(kGate, "libasan.so.8", "x.so"),
            "libasan.so.8:x.so:/opt/gpufence/lib/libgpufence.so");
  EXPECT_EQ(preload_value(kGate, "libasan.so.8", "x.so:/usr/lib/libasan.so.8"),
            "/usr/lib/libasan.so.8:x.so:/opt/gpufence/lib/libgpufence.so");
  EXPECT_EQ(preload_value(kGate, "", "/usr/lib/libtsan.so.2:x.so"),
            "/usr/lib/libtsan.so.2:x.so:/opt/gpufence/lib/libgpufence.so");
}

}  // namespace
}  // namespace gpufence::command
