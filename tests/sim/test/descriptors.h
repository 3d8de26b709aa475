// Two processes of a test: a descriptor that one gives the other, and words between them.
#pragma once
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace gpufence::sim {

inline void send_descriptor(int socket, int descriptor) {
  char byte = 0, control[CMSG_SPACE(sizeof descriptor)] = {};
  iovec part = {&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  EXPECT_EQ(sendmsg(socket, &message, 0), 1);
}

inline int receive_descriptor(int socket) {
  int descriptor = -1;
  char byte = 0, control[CMSG_SPACE(sizeof descriptor)] = {};
  iovec part = {&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != nullptr)
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}

inline void tell(int socket, char c) {
  EXPECT_EQ(write(socket, &c, 1), 1);
}
inline char hear(int socket) {
  char c = 0;
  EXPECT_EQ(read(socket, &c, 1), 1);
  return c;
}

}  // namespace gpufence::sim
