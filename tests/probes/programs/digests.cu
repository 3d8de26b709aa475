// SHA-256, CRC-32 and other digests, bit by bit as the host computes them.
#include "check.h"

__constant__ uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
__constant__ uint32_t crct[256];
__constant__ uint32_t T0[256];
__constant__ unsigned char SB[256];
__device__ uint32_t rot(uint32_t x, int n) {
  return __funnelshift_r(x, x, n);
}
__device__ void sha_block(uint32_t* h, const unsigned char* p) {
  uint32_t w[64];
  for (int i = 0; i < 16; i++) w[i] = p[4 * i] << 24 | p[4 * i + 1] << 16 | p[4 * i + 2] << 8 | p[4 * i + 3];
#pragma unroll 4
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rot(a, 7) ^ rot(a, 18) ^ (a >> 3)) + w[i - 7] + (rot(b, 17) ^ rot(b, 19) ^ (b >> 10));
  }
  uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], hh = h[7];
  for (int i = 0; i < 64; i++) {
    uint32_t t1 = hh + (rot(e, 6) ^ rot(e, 11) ^ rot(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i],
             t2 = (rot(a, 2) ^ rot(a, 13) ^ rot(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    hh = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  h[0] += a;
  h[1] += b;
  h[2] += c;
  h[3] += d;
  h[4] += e;
  h[5] += f;
  h[6] += g;
  h[7] += hh;
}
__device__ void sha256(const unsigned char* m, int len, uint32_t* h) {
  const uint32_t iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(h, iv, 32);
  int i = 0;
  for (; i + 64 <= len; i += 64) sha_block(h, m + i);
  unsigned char last[128];
  memset(last, 0, sizeof last);
  int r = len - i;
  memcpy(last, m + i, r);
  last[r] = 0x80;
  int tot = r + 9 > 64 ? 128 : 64;
  unsigned long long bits = (unsigned long long)len * 8;
  for (int k = 0; k < 8; k++) last[tot - 1 - k] = bits >> (8 * k);
  sha_block(h, last);
  if (tot == 128) sha_block(h, last + 64);
}
__global__ void sha_many(const unsigned char* buf, const int* off, const int* len, uint32_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    uint32_t h[8];
    sha256(buf + off[i], len[i], h);
    for (int k = 0; k < 8; k++) out[i * 8 + k] = h[k];
  }
}
__device__ unsigned best_nonce = ~0u;
__global__ void mine(const unsigned char* hdr, int len, int zero_bits) {
  unsigned nonce = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned char m[64];
  for (int i = 0; i < len; i++) m[i] = hdr[i];
  memcpy(m + len, &nonce, 4);
  uint32_t h[8];
  sha256(m, len + 4, h);
  if (__clz(h[0]) >= zero_bits) atomicMin(&best_nonce, nonce);
}
__global__ void crc_many(const unsigned char* buf, const int* off, const int* len, uint32_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t c = ~0u;
  const unsigned char* p = buf + off[i];
  for (int k = 0; k < len[i]; k++) c = crct[(c ^ p[k]) & 255] ^ (c >> 8);
  out[i] = ~c;
}
__global__ void aes(const uint4* in, uint4* out, const uint32_t* rk, int n) {
  __shared__ uint32_t t[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) t[i] = T0[i];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint4 v = in[i];
  uint32_t s[4] = {__byte_perm(v.x, 0, 0x0123) ^ rk[0], __byte_perm(v.y, 0, 0x0123) ^ rk[1],
                   __byte_perm(v.z, 0, 0x0123) ^ rk[2], __byte_perm(v.w, 0, 0x0123) ^ rk[3]},
           q[4];
  for (int r = 1; r < 10; r++) {
    for (int c = 0; c < 4; c++)
      q[c] = t[s[c] >> 24] ^ rot(t[(s[(c + 1) & 3] >> 16) & 255], 8) ^
             rot(t[(s[(c + 2) & 3] >> 8) & 255], 16) ^ rot(t[s[(c + 3) & 3] & 255], 24) ^ rk[4 * r + c];
    for (int c = 0; c < 4; c++) s[c] = q[c];
  }
  for (int c = 0; c < 4; c++)
    q[c] = ((uint32_t)SB[s[c] >> 24] << 24 | SB[(s[(c + 1) & 3] >> 16) & 255] << 16 |
            SB[(s[(c + 2) & 3] >> 8) & 255] << 8 | SB[s[(c + 3) & 3] & 255]) ^
           rk[40 + c];
  out[i] = make_uint4(__byte_perm(q[0], 0, 0x0123), __byte_perm(q[1], 0, 0x0123),
                      __byte_perm(q[2], 0, 0x0123), __byte_perm(q[3], 0, 0x0123));
}
static unsigned char sb[256];
static unsigned char xt(unsigned char x) {
  return x << 1 ^ (x & 128 ? 0x1b : 0);
}
static void aes_ref(const unsigned char* in, unsigned char* o, const unsigned char* w) {
  unsigned char s[16];
  for (int i = 0; i < 16; i++) s[i] = in[i] ^ w[i];
  for (int r = 1; r <= 10; r++) {
    unsigned char t[16];
    for (int c = 0; c < 4; c++)
      for (int k = 0; k < 4; k++) t[c * 4 + k] = sb[s[((c + k) & 3) * 4 + k]];
    if (r < 10)
      for (int c = 0; c < 4; c++) {
        unsigned char *p = t + c * 4, a = p[0], b = p[1], d = p[2], e = p[3];
        p[0] = xt(a) ^ xt(b) ^ b ^ d ^ e;
        p[1] = a ^ xt(b) ^ xt(d) ^ d ^ e;
        p[2] = a ^ b ^ xt(d) ^ xt(e) ^ e;
        p[3] = xt(a) ^ a ^ b ^ d ^ xt(e);
      }
    for (int i = 0; i < 16; i++) s[i] = t[i] ^ w[r * 16 + i];
  }
  memcpy(o, s, 16);
}
static void host_sha256(const unsigned char* m, size_t len, uint32_t* h) {
  static const uint32_t k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  uint32_t iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(h, iv, 32);
  std::vector<unsigned char> b(m, m + len);
  b.push_back(0x80);
  while (b.size() % 64 != 56) b.push_back(0);
  for (int i = 7; i >= 0; i--) b.push_back((unsigned char)((len * 8ull) >> (8 * i)));
  auto R = [](uint32_t x, int n) { return x >> n | x << (32 - n); };
  for (size_t o = 0; o < b.size(); o += 64) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
      w[i] = (uint32_t)b[o + 4 * i] << 24 | b[o + 4 * i + 1] << 16 | b[o + 4 * i + 2] << 8 | b[o + 4 * i + 3];
    for (int i = 16; i < 64; i++)
      w[i] = w[i - 16] + (R(w[i - 15], 7) ^ R(w[i - 15], 18) ^ (w[i - 15] >> 3)) + w[i - 7] +
             (R(w[i - 2], 17) ^ R(w[i - 2], 19) ^ (w[i - 2] >> 10));
    memcpy(v, h, 32);
    for (int i = 0; i < 64; i++) {
      uint32_t t1 = v[7] + (R(v[4], 6) ^ R(v[4], 11) ^ R(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) +
                    k[i] + w[i],
               t2 =
                   (R(v[0], 2) ^ R(v[0], 13) ^ R(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      for (int j = 7; j > 0; j--) v[j] = v[j - 1];
      v[4] += t1;
      v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
  }
}
int main() {
  // tables
  uint32_t ct[256];
  for (int i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
    ct[i] = c;
  }
  MUST(cudaMemcpyToSymbol(crct, ct, sizeof ct));
  unsigned char p = 1, q = 1;
  do {
    p = p ^ (p << 1) ^ (p & 0x80 ? 0x1b : 0);
    q ^= q << 1;
    q ^= q << 2;
    q ^= q << 4;
    q ^= q & 0x80 ? 9 : 0;
    unsigned char x = q ^ (q << 1 | q >> 7) ^ (q << 2 | q >> 6) ^ (q << 3 | q >> 5) ^ (q << 4 | q >> 4);
    sb[p] = x ^ 0x63;
  } while (p != 1);
  sb[0] = 0x63;
  uint32_t t0[256];
  for (int i = 0; i < 256; i++)
    t0[i] = (uint32_t)xt(sb[i]) << 24 | sb[i] << 16 | sb[i] << 8 | (xt(sb[i]) ^ sb[i]);
  MUST(cudaMemcpyToSymbol(T0, t0, sizeof t0));
  MUST(cudaMemcpyToSymbol(SB, sb, 128));
  MUST(cudaMemcpyToSymbol(SB, sb + 128, 128, 128));
  int n = 130;
  std::vector<unsigned char> buf(40000);
  unsigned s = 5;
  for (auto& c : buf) {
    s = s * 1664525u + 1013904223u;
    c = s >> 24;
  }
  std::vector<int> off(n), len(n);
  int o = 1;
  for (int i = 0; i < n; i++) {
    off[i] = o;
    len[i] = i;
    o += i + 3;
  }
  memcpy(&buf[off[3]], "abc", 3);
  memcpy(&buf[off[9]], "123456789", 9);
  unsigned char* db;
  int *d_o, *dl;
  uint32_t* dout;
  MUST(cudaMalloc(&db, buf.size()));
  MUST(cudaMalloc(&d_o, n * 4));
  MUST(cudaMalloc(&dl, n * 4));
  MUST(cudaMalloc(&dout, n * 32));
  MUST(cudaMemcpy(db, buf.data(), buf.size(), cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(d_o, off.data(), n * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dl, len.data(), n * 4, cudaMemcpyHostToDevice));
  sha_many<<<3, 64>>>(db, d_o, dl, dout, n);
  MUST_RUN();
  std::vector<uint32_t> r(n * 8);
  MUST(cudaMemcpy(r.data(), dout, n * 32, cudaMemcpyDeviceToHost));
  HOLDS(r[3 * 8] == 0xba7816bf && r[3 * 8 + 7] == 0xf20015ad, "sha256(abc) %08x", r[24]);
  for (int i = 0; i < n; i++) {
    uint32_t h[8];
    host_sha256(&buf[off[i]], len[i], h);
    HOLDS(!memcmp(h, &r[i * 8], 32), "sha len %d: %08x %08x", i, h[0], r[i * 8]);
  }
  crc_many<<<5, 32>>>(db, d_o, dl, dout, n);
  MUST_RUN();
  MUST(cudaMemcpy(r.data(), dout, n * 4, cudaMemcpyDeviceToHost));
  HOLDS(r[9] == 0xcbf43926, "crc check %08x", r[9]);
  for (int i = 0; i < n; i++) {
    uint32_t c = ~0u;
    for (int k = 0; k < len[i]; k++) c = ct[(c ^ buf[off[i] + k]) & 255] ^ (c >> 8);
    HOLDS(~c == r[i], "crc %d", i);
  }
  mine<<<8, 128>>>(db + 1, 41, 7);
  MUST_RUN();
  unsigned bn;
  MUST(cudaMemcpyFromSymbol(&bn, best_nonce, 4));
  unsigned en = ~0u;
  for (unsigned k = 0; k < 1024; k++) {
    unsigned char m[45];
    memcpy(m, &buf[1], 41);
    memcpy(m + 41, &k, 4);
    uint32_t h[8];
    host_sha256(m, 45, h);
    if (h[0] >> 25 == 0) {
      en = k;
      break;
    }
  }
  HOLDS(bn == en, "nonce %u %u", bn, en);
  unsigned char key[16] = {0x00, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, w[176];
  memcpy(w, key, 16);
  unsigned char rc = 1;
  for (int i = 16; i < 176; i += 4) {
    unsigned char t[4];
    memcpy(t, w + i - 4, 4);
    if (i % 16 == 0) {
      unsigned char x = t[0];
      t[0] = sb[t[1]] ^ rc;
      t[1] = sb[t[2]];
      t[2] = sb[t[3]];
      t[3] = sb[x];
      rc = xt(rc);
    }
    for (int k = 0; k < 4; k++) w[i + k] = w[i + k - 16] ^ t[k];
  }
  uint32_t rk[44];
  for (int i = 0; i < 44; i++) rk[i] = w[4 * i] << 24 | w[4 * i + 1] << 16 | w[4 * i + 2] << 8 | w[4 * i + 3];
  int m = 500;
  std::vector<unsigned char> pt(buf.begin(), buf.begin() + m * 16), c(m * 16);
  for (int i = 0; i < 16; i++) pt[i] = i * 17;
  uint4 *di, *d_o2;
  uint32_t* drk;
  MUST(cudaMalloc(&di, m * 16));
  MUST(cudaMalloc(&d_o2, m * 16));
  MUST(cudaMalloc(&drk, 176));
  MUST(cudaMemcpy(di, pt.data(), m * 16, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(drk, rk, 176, cudaMemcpyHostToDevice));
  aes<<<8, 64>>>(di, d_o2, drk, m);
  MUST_RUN();
  MUST(cudaMemcpy(c.data(), d_o2, m * 16, cudaMemcpyDeviceToHost));
  const unsigned char kat[16] = {0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30,
                                 0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5, 0x5a};
  HOLDS(!memcmp(kat, c.data(), 16), "AES FIPS-197 %02x%02x", c[0], c[1]);
  for (int i = 0; i < m; i++) {
    unsigned char e[16];
    aes_ref(&pt[i * 16], e, w);
    HOLDS(!memcmp(e, &c[i * 16], 16), "aes block %d", i);
  }
  return verdict();
}
