"""The CUDA C++ of the op `cuda_rows`: what stands between products, one read and one write of each element.

`form` says what is written: OPERAND halves (`low` and `again`: where the low half and the high half's copy
stand, 0 where there is none), FLOAT32, FLOAT16, BFLOAT16; `read` is in the same words.
"""

TEXT = r"""
enum { OPERAND = 0, FLOAT32 = 1, FLOAT16 = 2, BFLOAT16 = 3 };

__device__ __forceinline__ float read(const void *from, long long at, int form)
{
    if (form == FLOAT32) return ((const float *)from)[at];
    const unsigned word = ((const half_t *)from)[at];
    if (form == FLOAT16) return value(word);
    const unsigned whole = word << 16;                      // a bfloat16 is the upper half of a float32
    return *(const float *)&whole;
}

__device__ __forceinline__ unsigned short bfloat16(float x) // rounded to nearest, ties to even
{
    const unsigned word = *(const unsigned *)&x;
    if ((word & 0x7fffffff) > 0x7f800000) return 0x7fc0;
    return (word + 0x7fff + (word >> 16 & 1)) >> 16;
}

__device__ __forceinline__ void write(void *to, long long at, float x, int form,
                                      long long low, long long again)
{
    half_t *halves = (half_t *)to;
    if (form == FLOAT32) { ((float *)to)[at] = x; return; }
    if (form == BFLOAT16) { halves[at] = bfloat16(x); return; }
    const unsigned whole = bits(x);
    halves[at] = whole;
    if (form == FLOAT16) return;
    if (again) halves[at + again] = whole;
    if (low) halves[at + low] = bits(x - value(whole));
}

__device__ __forceinline__ float sum_of_warp(float x)
{
#pragma unroll
    for (int mask = 16; mask; mask /= 2) x += from_lane_xor(x, mask);
    return x;
}

// A warp takes a row, and reads it thrice: from the second time on out of the cache.
extern "C" __global__ void __launch_bounds__(128)
layernorm(const void *x, void *out, const float *weight, const float *bias, const unsigned char *valid,
          int tokens, int depth, int width, int x_form, int out_form,
          long long x_stride, long long out_stride, long long low, long long again)
{
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= tokens) return;
    const long long from = row * x_stride, to = row * out_stride;
    float sum = 0.0f, squares = 0.0f;
    for (int i = lane; i < depth; i += 32) sum += read(x, from + i, x_form);
    const float mean = sum_of_warp(sum) / depth;
    for (int i = lane; i < depth; i += 32) {
        const float centred = read(x, from + i, x_form) - mean;
        squares += centred * centred;
    }
    const float scale = 1.0f / sqrtf(sum_of_warp(squares) / depth + 1e-5f);
    const bool counts = !valid || valid[row];
    for (int i = lane; i < width; i += 32) {
        float y = i < depth ? (read(x, from + i, x_form) - mean) * scale : 0.0f;
        if (weight) y = counts ? y * weight[i] + bias[i] : 0.0f;
        write(out, to + i, y, out_form, low, again);
    }
}

// out = residual + product * unscale + bias, or an operand of it, or of its GELU; a thread takes a column of
// some rows.
extern "C" __global__ void __launch_bounds__(128)
finish(const float *product, const float *bias, const void *residual, void *out,
       int tokens, int columns, int stored, int biased, int rows, int gelu, int residual_form, int out_form,
       float unscale, long long out_stride, long long low, long long again)
{
    const int across = (stored + 127) / 128;
    const int column = blockIdx.x % across * 128 + threadIdx.x;
    if (column >= stored) return;
    const float added = column < biased ? bias[column] : 0.0f;
    for (int i = 0; i < rows; ++i) {
        const long long row = (long long)(blockIdx.x / across) * rows + i;
        if (row >= tokens) return;
        float t = product[row * columns + column] * unscale + added;
        if (gelu) t = 0.5f * t * (1.0f + erff(t * 0.70710678f));
        if (residual) t += read(residual, row * stored + column, residual_form);
        write(out, row * out_stride + column, t, out_form, low, again);
    }
}
"""
