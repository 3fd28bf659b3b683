// What `cuda_on_cpu.py` puts before an op's text: CUDA's words, and the instructions by their definitions.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <immintrin.h>
#include <tuple>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(x)
#define __shared__
#define __restrict__

struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct Place { unsigned x; };
static Place threadIdx, blockIdx, blockDim, gridDim;
uint4 memory[4096];
using std::fmaxf;

// Fibers: one for each thread of a block.
static ucontext_t scheduler;
static std::vector<ucontext_t> fibers;
static std::vector<char> ended;
static long progress;
struct Meeting { int arrived = 0; long turn = 0; };
static Meeting of_block, of_warp[32];
struct Slot { unsigned words[2][3]; const uint4 *row[2]; };
static Slot slots[1024];

static void wait_for(Meeting &meeting, int all)
{
    const long turn = meeting.turn;
    ++progress;
    if (++meeting.arrived == all) { meeting.arrived = 0; ++meeting.turn; return; }
    while (meeting.turn == turn) {
        const unsigned self = threadIdx.x;
        swapcontext(&fibers[self], &scheduler);
        threadIdx.x = self;
    }
}

inline void __syncthreads() { wait_for(of_block, blockDim.x); }

// Gives this lane's words to its warp; the side of the slots to read from. Two sides, so that one wait does.
static int give(unsigned a, unsigned b, unsigned c, const uint4 *row)
{
    Meeting &warp = of_warp[threadIdx.x / 32];
    const int side = warp.turn % 2;
    Slot &slot = slots[threadIdx.x];
    slot.words[side][0] = a, slot.words[side][1] = b, slot.words[side][2] = c, slot.row[side] = row;
    wait_for(warp, 32);
    return side;
}

inline unsigned bits(float x) { return _cvtss_sh(x, 0); }
inline float value(unsigned h) { return _cvtsh_ss(h); }
inline float power_of_two(float x) { return std::exp2(x); }

// PTX ISA, m16n8k8 with .f16: of lane l = 4 g + t, A holds (g, 2t..2t+1) and (g+8, 2t..2t+1), B (2t..2t+1, g),
// C (g, 2t..2t+1) and (g+8, 2t..2t+1).
inline void mma(float (&c)[4], unsigned a0, unsigned a1, unsigned b)
{
    const int side = give(a0, a1, b, nullptr), lane = threadIdx.x % 32;
    const Slot *warp = slots + threadIdx.x / 32 * 32;
    for (int e = 0; e < 4; ++e) {
        const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        double sum = c[e];
        for (int k = 0; k < 8; ++k) {
            const unsigned a = warp[row % 8 * 4 + k / 2].words[side][row / 8] >> k % 2 * 16;
            const unsigned w = warp[column * 4 + k / 2].words[side][2] >> k % 2 * 16;
            sum += (double)value(a & 0xffff) * value(w & 0xffff);
        }
        c[e] = (float)sum;
    }
}

// PTX ISA, ldmatrix .x4: lanes 8i to 8i+7 give the rows of matrix i; lane 4 g + t receives its (g, 2t..2t+1).
static void load(unsigned (&r)[4], const uint4 *row, bool transposed)
{
    const int side = give(0, 0, 0, row), lane = threadIdx.x % 32;
    const Slot *warp = slots + threadIdx.x / 32 * 32;
    for (int i = 0; i < 4; ++i) {
        r[i] = 0;
        for (int e = 0; e < 2; ++e) {
            const int at = lane / 4, to = lane % 4 * 2 + e;
            const uint4 *from = warp[i * 8 + (transposed ? to : at)].row[side];
            r[i] |= (unsigned)((const unsigned short *)from)[transposed ? at : to] << e * 16;
        }
    }
}
inline void load_matrices(unsigned (&r)[4], const uint4 *row) { load(r, row, false); }
inline void load_transposed(unsigned (&r)[4], const uint4 *row) { load(r, row, true); }

inline unsigned ballot(bool is)
{
    const int side = give(is, 0, 0, nullptr);
    unsigned all = 0;
    for (int i = 0; i < 32; ++i) all |= slots[threadIdx.x / 32 * 32 + i].words[side][0] << i;
    return all;
}

inline float from_lane_xor(float x, int mask)
{
    unsigned word;
    std::memcpy(&word, &x, 4);
    const int side = give(word, 0, 0, nullptr);
    std::memcpy(&x, &slots[threadIdx.x ^ mask].words[side][0], 4);
    return x;
}

template <class... T, size_t... I>
static void call(void (*function)(T...), void **given, std::index_sequence<I...>)
{ function(*(T *)given[I]...); }

static void (*body)();
static void fiber() { body(); ended[threadIdx.x] = 1; ++progress; }

template <class... T>
static const char *run(void (*function)(T...), int blocks, int threads, void **given)
{
    static void (*started)(T...);
    static void **arguments;
    started = function, arguments = given;
    body = [] { call(started, arguments, std::index_sequence_for<T...>()); };
    static std::vector<char> stacks;
    const size_t room = 1 << 16;
    stacks.resize(room * threads), fibers.resize(threads);
    gridDim.x = blocks, blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < (unsigned)blocks; ++blockIdx.x) {
        std::memset(memory, 0xff, sizeof memory);           // what nobody wrote is NaN
        ended.assign(threads, 0);
        for (int i = 0; i < threads; ++i) {
            getcontext(&fibers[i]);
            fibers[i].uc_stack.ss_sp = &stacks[i * room];
            fibers[i].uc_stack.ss_size = room;
            fibers[i].uc_link = &scheduler;
            makecontext(&fibers[i], fiber, 0);
        }
        for (int left = threads; left;) {
            const long before = progress;
            left = 0;
            for (int i = 0; i < threads; ++i) {
                if (ended[i]) continue;
                threadIdx.x = i;
                swapcontext(&scheduler, &fibers[i]);
                left += !ended[i];
            }
            if (left && progress == before) return "threads wait for ever";
        }
    }
    return nullptr;
}
