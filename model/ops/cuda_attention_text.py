"""The CUDA C++ of the op `cuda_attention`; what it computes and how it is called stands there.

Defined from outside: HEAD_DIM, SPLIT, BLOCK_M (queries, 16 a warp), BLOCK_N (keys of a step), HOLD (queries
stay in registers), AHEAD (the next keys are under way while these are computed with).

Sources: as of `attention`; the layout of fragments: PTX ISA; a result of one product is, as it lies, the left
operand of the next: as in FlashAttention-2 (arXiv 2307.08691).
"""

TEXT = r"""
constexpr int PARTS = SPLIT ? 2 : 1;
constexpr int PIECES = HEAD_DIM / 8;                        // of 16 bytes in a row
constexpr int THREADS = BLOCK_M * 2;
constexpr int TILE = BLOCK_N * PIECES;                      // pieces of one part of K or V
constexpr int OWN = TILE * PARTS / THREADS;                 // pieces that a thread carries
constexpr int GROUPS = BLOCK_N / 8;                         // of keys: one product's width
constexpr float SHIFT = 8.0f;                               // shares are 2^8 times as large: float16
static_assert(OWN * THREADS == TILE * PARTS, "every thread carries as much");
static_assert(!HOLD || BLOCK_M <= 2 * BLOCK_N, "queries are staged where keys and values lie later");

extern __shared__ uint4 memory[];

// Where a piece of a row lies: eight rows, one piece of each, are in eight different banks.
__device__ __forceinline__ int place(int row, int piece)
{
    constexpr int mixed = PIECES < 8 ? PIECES : 8;
    return row * PIECES + (piece ^ row / (8 / mixed) % mixed);
}

__device__ __forceinline__ uint4 piece_of(const half_t *rows, long long stride, long long lo,
                                          int row, int end, int index, int count)
{
    if (row >= end) return uint4{0, 0, 0, 0};
    return *(const uint4 *)(rows + row * stride + index / (count * PIECES) * lo + index % PIECES * 8);
}

__device__ __forceinline__ void fetch(uint4 (&own)[OWN], const half_t *rows, long long stride, long long lo,
                                      int first, int end)
{
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int index = threadIdx.x + i * THREADS;
        own[i] = piece_of(rows, stride, lo, first + index / PIECES % BLOCK_N, end, index, BLOCK_N);
    }
}

__device__ __forceinline__ void stow(uint4 *tile, const uint4 (&own)[OWN])
{
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int index = threadIdx.x + i * THREADS;
        tile[index / TILE * TILE + place(index / PIECES % BLOCK_N, index % PIECES)] = own[i];
    }
}

// Two pieces of a warp's 16 queries as left operands: registers 0 and 1, then 2 and 3.
__device__ __forceinline__ void load_queries(unsigned (&q)[4], const uint4 *tile, int part, int piece)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    load_matrices(q, tile + part * BLOCK_M * PIECES + place(warp * 16 + lane % 16, piece + lane / 16));
}

// c0 and c1 += a (two steps of depth) @ b (as ldmatrix gives it)
__device__ __forceinline__ void two_steps(float (&c0)[4], float (&c1)[4],
                                          const unsigned *a, const unsigned (&b)[4])
{
    mma(c0, a[0], a[1], b[0]);
    mma(c1, a[0], a[1], b[2]);
    mma(c0, a[2], a[3], b[1]);
    mma(c1, a[2], a[3], b[3]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention(const half_t *q, const half_t *k, const half_t *v, const unsigned char *valid, half_t *out,
          int heads, int queries, int keys, int first, int blocks, int causal,
          long long q_stride, long long q_lo, long long k_stride, long long k_lo,
          long long out_stride, long long out_lo, long long out_again)
{
    uint4 *k_tile = memory, *v_tile = memory + TILE * PARTS;
    uint4 *q_tile = HOLD ? memory : memory + 2 * TILE * PARTS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int block = blocks - 1 - blockIdx.x % blocks;     // the longest walks first
    const int head = blockIdx.x / blocks % heads;
    const long long sequence = blockIdx.x / blocks / heads;
    const int start_row = block * BLOCK_M;
    q += sequence * queries * q_stride + head * HEAD_DIM;
    k += sequence * keys * k_stride + head * HEAD_DIM;
    v += sequence * keys * k_stride + head * HEAD_DIM;
    if (valid) valid += sequence * keys;

    for (int index = threadIdx.x; index < BLOCK_M * PIECES * PARTS; index += THREADS) {
        const int row = index / PIECES % BLOCK_M;
        const uint4 piece = piece_of(q, q_stride, q_lo, start_row + row, queries, index, BLOCK_M);
        q_tile[index / (BLOCK_M * PIECES) * BLOCK_M * PIECES + place(row, index % PIECES)] = piece;
    }
    __syncthreads();
    unsigned held[HOLD ? PARTS : 1][HOLD ? PIECES / 2 : 1][4];
    if (HOLD) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
#pragma unroll
            for (int c = 0; c < PIECES / 2; ++c) load_queries(held[part][HOLD ? c : 0], q_tile, part, c * 2);
        __syncthreads();
    }

    float o[PIECES][4] = {}, total[2] = {0.0f, 0.0f}, top[2] = {-1e30f, -1e30f};
    const int row = start_row + warp * 16 + lane / 4;       // of elements 0 and 1; 2 and 3 are 8 further
    const int last_key = causal ? first + start_row + warp * 16 + 15 : keys;   // that this warp sees
    const int end = causal && first + start_row + BLOCK_M < keys ? first + start_row + BLOCK_M : keys;
    uint4 own[OWN];
    if (AHEAD) fetch(own, k, k_stride, k_lo, 0, end);
    for (int start = 0; start < end; start += BLOCK_N) {
        if (!AHEAD) fetch(own, k, k_stride, k_lo, start, end);
        stow(k_tile, own);
        __syncthreads();
        if (AHEAD) fetch(own, v, k_stride, k_lo, start, end);
        float fade[2];
        unsigned high[GROUPS][2], low[SPLIT ? GROUPS : 1][2];
        if (start <= last_key) {
            float s[GROUPS][4] = {}, small[SPLIT ? GROUPS : 1][4] = {};
#pragma unroll
            for (int c = 0; c < PIECES; c += 2) {
                unsigned q_high[4], q_low[4];
                if (!HOLD) load_queries(q_high, q_tile, 0, c);
                if (!HOLD && SPLIT) load_queries(q_low, q_tile, 1, c);
                const unsigned *a_high = HOLD ? held[0][HOLD ? c / 2 : 0] : q_high;
                const unsigned *a_low = HOLD ? held[PARTS == 2 && HOLD][HOLD ? c / 2 : 0] : q_low;
#pragma unroll
                for (int j = 0; j < GROUPS; j += 2) {
                    const int cell = place(j * 8 + lane % 8 + lane / 16 * 8, c + lane / 8 % 2);
                    unsigned b[4];
                    load_matrices(b, k_tile + cell);
                    if (SPLIT) {
                        unsigned b_low[4];
                        load_matrices(b_low, k_tile + TILE + cell);
                        two_steps(small[j], small[j + 1], a_low, b);
                        two_steps(small[j], small[j + 1], a_high, b_low);
                    }
                    two_steps(s[j], s[j + 1], a_high, b);
                }
            }
            const int own_first = first + start_row + warp * 16;
            const bool edge = start + BLOCK_N > keys || (causal && start + BLOCK_N > own_first + 1);
            float most[2] = {top[0], top[1]};
            unsigned seen = ~0u;                            // bit i: key start + 32 (j / 4) + i counts
#pragma unroll
            for (int j = 0; j < GROUPS; ++j) {
                if (j % 4 == 0 && (edge || valid)) {
                    const int key = start + j / 4 * 32 + lane;
                    seen = ballot(key < end && (!valid || valid[key < end ? key : 0]));
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int column = j % 4 * 8 + lane % 4 * 2 + e % 2;
                    const int key = start + j / 4 * 32 + column;
                    if (SPLIT) s[j][e] += small[SPLIT ? j : 0][e];
                    const bool later = edge && causal && key > first + row + e / 2 * 8;
                    if (later || !(seen >> column & 1)) s[j][e] = -1.0f / 0.0f;
                    most[e / 2] = fmaxf(most[e / 2], s[j][e]);
                }
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                most[r] = fmaxf(most[r], from_lane_xor(most[r], 1));
                most[r] = fmaxf(most[r], from_lane_xor(most[r], 2));
                fade[r] = power_of_two(top[r] - most[r]);
                total[r] *= fade[r];
                top[r] = most[r];
            }
#pragma unroll
            for (int j = 0; j < GROUPS; ++j)
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    const float x = power_of_two(s[j][2 * r] - (top[r] - SHIFT));
                    const float y = power_of_two(s[j][2 * r + 1] - (top[r] - SHIFT));
                    total[r] += x + y;
                    high[j][r] = pair(x, y);
                    if (SPLIT) low[SPLIT ? j : 0][r] = rest(x, y, high[j][r]);
                }
        }
        if (!AHEAD) fetch(own, v, k_stride, k_lo, start, end);
        stow(v_tile, own);
        __syncthreads();
        if (AHEAD) fetch(own, k, k_stride, k_lo, start + BLOCK_N, end);
        if (start > last_key) continue;
#pragma unroll
        for (int d = 0; d < PIECES; d += 2) {
            float sum[2][4] = {}, small[2][4] = {};
#pragma unroll
            for (int j = 0; j < GROUPS; j += 2) {
                const int cell = place(j * 8 + lane % 16, d + lane / 16);
                unsigned b[4];
                load_transposed(b, v_tile + cell);
                const unsigned a[4] = {high[j][0], high[j][1], high[j + 1][0], high[j + 1][1]};
                if (SPLIT) {
                    const int l = SPLIT ? j : 0, m = SPLIT ? j + 1 : 0;
                    const unsigned a_low[4] = {low[l][0], low[l][1], low[m][0], low[m][1]};
                    unsigned b_low[4];
                    load_transposed(b_low, v_tile + TILE + cell);
                    two_steps(small[0], small[1], a_low, b);
                    two_steps(small[0], small[1], a, b_low);
                }
                two_steps(sum[0], sum[1], a, b);
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                o[d][e] = o[d][e] * fade[e / 2] + (sum[0][e] + small[0][e]);
                o[d + 1][e] = o[d + 1][e] * fade[e / 2] + (sum[1][e] + small[1][e]);
            }
        }
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
        total[r] += from_lane_xor(total[r], 1);
        total[r] += from_lane_xor(total[r], 2);
        const float share = total[r] > 0.0f ? 1.0f / total[r] : 0.0f;
        if (row + r * 8 >= queries) continue;
        half_t *at = out + (sequence * queries + row + r * 8) * out_stride + head * HEAD_DIM + lane % 4 * 2;
#pragma unroll
        for (int d = 0; d < PIECES; ++d) {
            const float x = o[d][2 * r] * share, y = o[d][2 * r + 1] * share;
            const unsigned whole = pair(x, y);
            *(unsigned *)(at + d * 8) = whole;
            if (out_again) *(unsigned *)(at + d * 8 + out_again) = whole;
            if (out_lo) *(unsigned *)(at + d * 8 + out_lo) = rest(x, y, whole);
        }
    }
}
"""
