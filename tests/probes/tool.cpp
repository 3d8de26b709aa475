// A tool that is linked to CUPTI, opened by a program that has used CUDA already.
#include <cupti.h>

static void CUPTIAPI listen(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

extern "C" int tool_subscribe() {
  CUpti_SubscriberHandle me = nullptr;
  return cuptiSubscribe(&me, listen, nullptr);
}
