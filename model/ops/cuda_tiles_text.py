"""CUDA C++ that the texts of the other ops begin with: float16 as bits, and what a warp does together.

Nothing is included, since a machine with torch has NVRTC but often no CUDA headers; all instructions are
those of sm_75. What stands in `WARP` is one function for each instruction, and all that a test on a CPU
replaces.

Source: PTX ISA, "mma.m16n8k8" (fragments of .f16), "ldmatrix".
"""

WARP = r"""
__device__ __forceinline__ unsigned bits(float x)            // a float16, rounded to nearest
{ unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }

__device__ __forceinline__ float value(unsigned h)           // of the float16 in the lower 16 bits
{ float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)h)); return x; }

__device__ __forceinline__ float power_of_two(float x)
{ float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }

// c [16,8] += a [16,8] @ b [8,8]
__device__ __forceinline__ void mma(float (&c)[4], unsigned a0, unsigned a1, unsigned b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b));
}

// Four matrices [8,8]; lanes 8i to 8i+7 give the rows of matrix i.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const uint4 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(row)));
}

__device__ __forceinline__ void load_transposed(unsigned (&r)[4], const uint4 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(row)));
}

__device__ __forceinline__ unsigned ballot(bool is) { return __ballot_sync(~0u, is); }
__device__ __forceinline__ float from_lane_xor(float x, int mask) { return __shfl_xor_sync(~0u, x, mask); }
"""

HALVES = r"""
typedef unsigned short half_t;

__device__ __forceinline__ unsigned pair(float x, float y) { return bits(x) | bits(y) << 16; }

// What the float16 pair `high` has lost of x and y, as such a pair.
__device__ __forceinline__ unsigned rest(float x, float y, unsigned high)
{ return pair(x - value(high & 0xffff), y - value(high >> 16)); }
"""
