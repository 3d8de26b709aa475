// The stand-in CUPTI with the stand-in runtime: both ends of the calls that were asked for, in CUPTI's own
// terms.
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "process.h"

namespace gpufence::sim {
namespace {

struct Told {
  CUpti_CallbackId id;
  bool exit;
  int result;
  int device;
};
std::vector<Told> told;

void CUPTIAPI listen(void* userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  EXPECT_EQ(userdata, &told);
  EXPECT_EQ(domain, CUPTI_CB_DOMAIN_RUNTIME_API);
  const bool exit = call.callbackSite == CUPTI_API_EXIT;
  const int device = id == CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020
                         ? static_cast<const cudaSetDevice_v3020_params*>(call.functionParams)->device
                         : -1;
  told.push_back({id, exit, exit ? *static_cast<cudaError_t*>(call.functionReturnValue) : -1, device});
  if (exit) {
    EXPECT_EQ(*call.correlationData, id);  // what the other end left there
  } else {
    *call.correlationData = id;
    EXPECT_EQ(call.functionReturnValue, nullptr);
  }
}

TEST(Cupti, TellsBothEndsOfTheCallsThatWereAskedFor) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    CUpti_SubscriberHandle me = nullptr;
    ASSERT_EQ(cuptiSubscribe(&me, listen, &told), CUPTI_SUCCESS);
    ASSERT_EQ(
        cuptiEnableCallback(1, me, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020),
        CUPTI_SUCCESS);
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);  // which starts the runtime, and is told all the same
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(7), cudaErrorInvalidDevice);
    ASSERT_EQ(told.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(told[i].id, CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020);
      EXPECT_EQ(told[i].exit, i % 2 == 1);
      EXPECT_EQ(told[i].device, i < 2 ? 1 : 7);
    }
    EXPECT_EQ(told[1].result, cudaSuccess);
    EXPECT_EQ(told[3].result, cudaErrorInvalidDevice);

    told.clear();
    ASSERT_EQ(cuptiEnableDomain(1, me, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_SUCCESS);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(told.size(), 2u);
    ASSERT_EQ(cuptiUnsubscribe(me), CUPTI_SUCCESS);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(told.size(), 2u);
  });
}

TEST(Cupti, AdmitsOneSubscriberAtATime) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    CUpti_SubscriberHandle first = nullptr, second = nullptr;
    ASSERT_EQ(cuptiSubscribe(&first, listen, &told), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiSubscribe(&second, listen, &told), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    const char* name = nullptr;
    ASSERT_EQ(cuptiGetResultString(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, &name), CUPTI_SUCCESS);
    EXPECT_STREQ(name, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
    EXPECT_EQ(cuptiUnsubscribe(first), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiUnsubscribe(first), CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_EQ(cuptiSubscribe(&second, listen, &told), CUPTI_SUCCESS);
  });
}

TEST(Cupti, HasEveryOtherFunctionButNoBehaviourForIt) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL), CUPTI_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(cuptiSubscribe(nullptr, listen, &told), CUPTI_ERROR_INVALID_PARAMETER);
  });
}

}  // namespace
}  // namespace gpufence::sim
