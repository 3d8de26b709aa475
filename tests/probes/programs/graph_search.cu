// Breadth-first search, shortest paths and components of graphs, by queues and atomics.
#include "check.h"

#include <queue>
#include <set>
struct Csr {
  int n;
  std::vector<int> ptr, col;
  std::vector<double> val;
};
__global__ void spmv_scalar(int n, const int* ptr, const int* col, const double* v, const double* x,
                            double* y) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < n) {
    double s = 0;
    for (int j = ptr[r]; j < ptr[r + 1]; j++) s += v[j] * x[col[j]];
    y[r] = s;
  }
}
template <int VS>
__global__ void spmv_vector(int n, const int* ptr, const int* col, const double* v, const double* x,
                            double* y) {
  int r = (blockIdx.x * blockDim.x + threadIdx.x) / VS, l = threadIdx.x % VS;
  double s = 0;
  if (r < n)
    for (int j = ptr[r] + l; j < ptr[r + 1]; j += VS) s = fma(v[j], x[col[j]], s);
  for (int o = VS / 2; o; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o, VS);
  if (l == 0 && r < n) y[r] = s;
}
__global__ void spmv_ell(int n, int w, const int* col, const double* v, const double* x, double* y) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  double s = 0;
  for (int k = 0; k < w; k++) {
    int c = col[k * n + r];
    if (c < 0) break;
    s += v[k * n + r] * x[c];
  }
  y[r] = s;
}
__device__ int q_tail;
__global__ void bfs(const int* ptr, const int* col, int* dist, const int* qin, int nin, int* qout,
                    int level) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= nin) return;
  int u = qin[t];
  for (int j = ptr[u]; j < ptr[u + 1]; j++) {
    int w = col[j];
    if (atomicCAS(&dist[w], -1, level) == -1) {
      // warp-aggregated queue push
      unsigned m = __activemask();
      int leader = __ffs(m) - 1, lane = threadIdx.x & 31, base = 0;
      if (lane == leader) base = atomicAdd(&q_tail, __popc(m));
      base = __shfl_sync(m, base, leader);
      qout[base + __popc(m & ((1u << lane) - 1))] = w;
    }
  }
}
__device__ int find(volatile int* p, int x) {
  while (p[x] != x) {
    int g = p[p[x]];
    p[x] = g;
    x = g;
  }
  return x;
}
__global__ void unite(int n, const int* ptr, const int* col, int* parent) {
  int u = blockIdx.x * blockDim.x + threadIdx.x;
  if (u >= n) return;
  for (int j = ptr[u]; j < ptr[u + 1]; j++) {
    int a = u, b = col[j];
    for (;;) {
      a = find(parent, a);
      b = find(parent, b);
      if (a == b) break;
      if (a < b) {
        int t = a;
        a = b;
        b = t;
      }
      if (atomicCAS(&parent[a], a, b) == a) break;
    }
  }
}
__global__ void flatten(int n, int* p, unsigned long long* mask, int* mn, int* mx) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  p[i] = find(p, i);
  atomicOr(&mask[p[i] >> 6], 1ull << (p[i] & 63));
  atomicMin(mn, p[i]);
  atomicMax(mx, p[i]);
}
__global__ void sssp(int n, const int* ptr, const int* col, const double* v, unsigned long long* d,
                     int* changed) {
  int u = blockIdx.x * blockDim.x + threadIdx.x;
  if (u >= n) return;
  double du = __longlong_as_double(d[u]);
  if (isinf(du)) return;
  for (int j = ptr[u]; j < ptr[u + 1]; j++) {
    double nd = du + v[j];
    unsigned long long *a = &d[col[j]], old = *a;
    while (__longlong_as_double(old) > nd) {
      unsigned long long seen = atomicCAS(a, old, __double_as_longlong(nd));
      if (seen == old) {
        atomicExch(changed, 1);
        break;
      }
      old = seen;
    }
  }
}
__global__ void atoms(int* i, unsigned* u, float* f, unsigned long long* l, double* d, unsigned short* s) {
  int t = threadIdx.x + blockIdx.x * blockDim.x;
  atomicSub(&i[0], t);
  atomicXor(&i[1], t * 7);
  atomicAnd(&i[2], ~(1 << (t & 15)));
  atomicInc(&u[0], 99);
  atomicDec(&u[1], 77);
  atomicMax(&u[2], t * 2654435761u);
  atomicAdd(&f[0], 0.5f);
  atomicAdd(&l[0], (unsigned long long)t << 30);
  atomicMin((long long*)&l[1], -(long long)t * 5);
  atomicMax(&l[2], (unsigned long long)t << 40);
  atomicAdd(&d[0], 0.25);
  atomicExch(&f[1], 3.0f);
  atomicAdd_block(&i[3], 1);
  atomicAdd_system(&i[4], 2);
  unsigned short old = *s, as;
  do {
    as = old;
    old = atomicCAS(s, as, (unsigned short)(as + 1));
  } while (as != old);
}
int main() {
  Csr g;
  g.n = 3000;
  unsigned s = 17;
  auto rnd = [&] {
    s = s * 1664525u + 1013904223u;
    return s >> 8;
  };
  std::vector<std::set<int>> adj(g.n);
  for (int i = 0; i < 3600; i++) {
    int a = rnd() % g.n, b = rnd() % 5 ? (a + rnd() % 40) % g.n : rnd() % g.n;
    if (a != b) {
      adj[a].insert(b);
      adj[b].insert(a);
    }
  }
  g.ptr.push_back(0);
  size_t w = 0;
  for (auto& a : adj) {
    for (int c : a) {
      g.col.push_back(c);
      g.val.push_back(1 + rnd() % 1000 / 8.0);
    }
    g.ptr.push_back(g.col.size());
    w = std::max(w, a.size());
  }
  int n = g.n, nz = g.col.size();
  std::vector<double> x(n), y(n), ref(n);
  for (auto& v : x) v = (rnd() % 100) / 4.0;
  for (int r = 0; r < n; r++)
    for (int j = g.ptr[r]; j < g.ptr[r + 1]; j++) ref[r] += g.val[j] * x[g.col[j]];
  int *dp, *dc;
  double *dv, *dx, *dy;
  MUST(cudaMalloc(&dp, (n + 1) * 4));
  MUST(cudaMalloc(&dc, nz * 4));
  MUST(cudaMalloc(&dv, nz * 8));
  MUST(cudaMalloc(&dx, n * 8));
  MUST(cudaMalloc(&dy, n * 8));
  MUST(cudaMemcpy(dp, g.ptr.data(), (n + 1) * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dc, g.col.data(), nz * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dv, g.val.data(), nz * 8, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dx, x.data(), n * 8, cudaMemcpyHostToDevice));
  auto check = [&](const char* m) {
    MUST_RUN();
    MUST(cudaMemcpy(y.data(), dy, n * 8, cudaMemcpyDeviceToHost));
    HOLDS(y == ref, "%s", m);
    MUST(cudaMemset(dy, 0xff, n * 8));
  };
  spmv_scalar<<<(n + 127) / 128, 128>>>(n, dp, dc, dv, dx, dy);
  check("scalar");
  spmv_vector<4><<<(n * 4 + 127) / 128, 128>>>(n, dp, dc, dv, dx, dy);
  check("vector 4");
  spmv_vector<32><<<(n * 32 + 127) / 128, 128>>>(n, dp, dc, dv, dx, dy);
  check("vector 32");
  std::vector<int> ec(w * n, -1);
  std::vector<double> ev(w * n);
  for (int r = 0; r < n; r++)
    for (int j = g.ptr[r]; j < g.ptr[r + 1]; j++) {
      ec[(j - g.ptr[r]) * n + r] = g.col[j];
      ev[(j - g.ptr[r]) * n + r] = g.val[j];
    }
  int* dec;
  double* dev;
  MUST(cudaMalloc(&dec, w * n * 4));
  MUST(cudaMalloc(&dev, w * n * 8));
  MUST(cudaMemcpy(dec, ec.data(), w * n * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dev, ev.data(), w * n * 8, cudaMemcpyHostToDevice));
  spmv_ell<<<(n + 127) / 128, 128>>>(n, w, dec, dev, dx, dy);
  check("ell");
  int *dd, *qa, *qb;
  MUST(cudaMalloc(&dd, n * 4));
  MUST(cudaMalloc(&qa, n * 4));
  MUST(cudaMalloc(&qb, n * 4));
  MUST(cudaMemset(dd, 0xff, n * 4));
  int z = 0;
  MUST(cudaMemcpy(dd, &z, 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(qa, &z, 4, cudaMemcpyHostToDevice));
  int cnt = 1;
  for (int lv = 1; cnt; lv++) {
    MUST(cudaMemcpyToSymbol(q_tail, &z, 4));
    bfs<<<(cnt + 63) / 64, 64>>>(dp, dc, dd, qa, cnt, qb, lv);
    MUST(cudaGetLastError());
    MUST(cudaMemcpyFromSymbol(&cnt, q_tail, 4));
    std::swap(qa, qb);
  }
  std::vector<int> dist(n), rd(n, -1);
  MUST(cudaMemcpy(dist.data(), dd, n * 4, cudaMemcpyDeviceToHost));
  std::queue<int> q;
  q.push(0);
  rd[0] = 0;
  while (!q.empty()) {
    int u = q.front();
    q.pop();
    for (int c : adj[u])
      if (rd[c] < 0) {
        rd[c] = rd[u] + 1;
        q.push(c);
      }
  }
  HOLDS(rd == dist, "bfs");
  std::vector<int> par(n), lab(n, -1);
  for (int i = 0; i < n; i++) par[i] = i;
  MUST(cudaMemcpy(dd, par.data(), n * 4, cudaMemcpyHostToDevice));
  unite<<<(n + 95) / 96, 96>>>(n, dp, dc, dd);
  MUST(cudaGetLastError());
  unsigned long long* mask;
  int *mm, mi[2] = {1 << 30, -1};
  MUST(cudaMalloc(&mask, (n + 63) / 64 * 8));
  MUST(cudaMemset(mask, 0, (n + 63) / 64 * 8));
  MUST(cudaMalloc(&mm, 8));
  MUST(cudaMemcpy(mm, mi, 8, cudaMemcpyHostToDevice));
  flatten<<<(n + 95) / 96, 96>>>(n, dd, mask, mm, mm + 1);
  MUST_RUN();
  MUST(cudaMemcpy(par.data(), dd, n * 4, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(mi, mm, 8, cudaMemcpyDeviceToHost));
  int comps = 0, maxr = 0;
  for (int i = 0; i < n; i++)
    if (lab[i] < 0) {
      comps++;
      maxr = i;
      lab[i] = i;
      q.push(i);
      while (!q.empty()) {
        int u = q.front();
        q.pop();
        for (int c : adj[u])
          if (lab[c] < 0) {
            lab[c] = i;
            q.push(c);
          }
      }
    }
  HOLDS(par == lab, "components");
  std::vector<unsigned long long> hm((n + 63) / 64);
  MUST(cudaMemcpy(hm.data(), mask, hm.size() * 8, cudaMemcpyDeviceToHost));
  int pc = 0;
  for (auto m : hm) pc += __builtin_popcountll(m);
  HOLDS(pc == comps && mi[0] == 0 && mi[1] == maxr, "comps %d %d min %d max %d %d", pc, comps, mi[0], mi[1],
        maxr);
  std::vector<double> ds(n, INFINITY);
  ds[0] = 0;
  unsigned long long* dl;
  int* ch;
  MUST(cudaMalloc(&dl, n * 8));
  MUST(cudaMalloc(&ch, 4));
  MUST(cudaMemcpy(dl, ds.data(), n * 8, cudaMemcpyHostToDevice));
  int c = 1, it = 0;
  while (c) {
    MUST(cudaMemset(ch, 0, 4));
    sssp<<<(n + 127) / 128, 128>>>(n, dp, dc, dv, dl, ch);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(&c, ch, 4, cudaMemcpyDeviceToHost));
    if (++it > n) break;
  }
  std::vector<double> gd(n);
  MUST(cudaMemcpy(gd.data(), dl, n * 8, cudaMemcpyDeviceToHost));
  std::priority_queue<std::pair<double, int>> pq;
  pq.push({0, 0});
  while (!pq.empty()) {
    auto [d, u] = pq.top();
    pq.pop();
    if (-d > ds[u]) continue;
    for (int j = g.ptr[u]; j < g.ptr[u + 1]; j++)
      if (ds[u] + g.val[j] < ds[g.col[j]]) {
        ds[g.col[j]] = ds[u] + g.val[j];
        pq.push({-ds[g.col[j]], g.col[j]});
      }
  }
  HOLDS(gd == ds, "sssp");
  int hi[5] = {0, 0, -1, 0, 0}, *di;
  unsigned hu[3] = {0, 0, 0}, *du;
  float hf[2] = {}, *df;
  unsigned long long hl[3] = {}, *dll;
  double hd = 0, *ddd;
  unsigned short *ds16, hs;
  MUST(cudaMalloc(&di, 20));
  MUST(cudaMalloc(&du, 12));
  MUST(cudaMalloc(&df, 8));
  MUST(cudaMalloc(&dll, 24));
  MUST(cudaMalloc(&ddd, 8));
  MUST(cudaMalloc(&ds16, 8));
  MUST(cudaMemcpy(di, hi, 20, cudaMemcpyHostToDevice));
  MUST(cudaMemset(du, 0, 12));
  MUST(cudaMemset(df, 0, 8));
  MUST(cudaMemset(dll, 0, 24));
  MUST(cudaMemset(ddd, 0, 8));
  MUST(cudaMemset(ds16, 0, 8));
  atoms<<<4, 160>>>(di, du, df, dll, ddd, ds16);
  MUST_RUN();
  MUST(cudaMemcpy(hi, di, 20, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(hu, du, 12, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(hf, df, 8, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(hl, dll, 24, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(&hd, ddd, 8, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(&hs, ds16, 2, cudaMemcpyDeviceToHost));
  int sum = 0, xr = 0;
  unsigned mu = 0, inc = 0, dcr = 0;
  unsigned long long sl = 0;
  for (unsigned t = 0; t < 640; t++) {
    sum -= t;
    xr ^= t * 7;
    mu = std::max(mu, t * 2654435761u);
    sl += (unsigned long long)t << 30;
    inc = inc >= 99 ? 0 : inc + 1;
    dcr = (dcr == 0 || dcr > 77) ? 77 : dcr - 1;
  }
  HOLDS(hi[0] == sum && hi[1] == xr && hi[2] == (int)0xffff0000 && hi[3] == 640 && hi[4] == 1280,
        "int atomics %d %d %x %d %d", hi[0], hi[1], hi[2], hi[3], hi[4]);
  HOLDS(hu[0] == inc && hu[1] == dcr && hu[2] == mu, "unsigned %u %u | %u %u", hu[0], inc, hu[1], dcr);
  HOLDS(hf[0] == 320 && hf[1] == 3 && hd == 160, "fp %g %g", hf[0], hd);
  HOLDS(hl[0] == sl && (long long)hl[1] == -639 * 5 && hl[2] == 639ull << 40, "64");
  HOLDS(hs == 640, "cas16 %d", hs);
  return verdict();
}
