/* $banner */
#include "policy.h"

#include <math.h>
#include <stdint.h>

enum {
    LAYERS = $layers,
    BLOCK = $block, /* outputs summed side by side, so that a processor need not wait for one sum at a time */
    WIDEST = $widest
};

struct layer {
    int inputs;
    int blocks;           /* of BLOCK outputs each; the last may have some that nothing reads */
    const float *weights; /* [block][input][BLOCK] */
    const float *biases;  /* [block][BLOCK] */
};

static const float clip = $clip; /* standard deviations */
$arrays
static const struct layer layers[LAYERS] = {
$table
};

static float memory[2][WIDEST];

/* Reads the exponent's bits: compilers may take isfinite for true under -ffast-math. */
static int is_finite(float value)
{
    union {
        float number;
        uint32_t bits;
    } view;

    view.number = value;
    return (view.bits & UINT32_C(0x7f800000)) != UINT32_C(0x7f800000);
}

static float between(float value, float low, float high)
{
    return value < low ? low : value > high ? high : value;
}

static float activate(float x)
{
    return $activation;
}

static void apply(const struct layer *layer, const float *in, float *out)
{
    const float *weight = layer->weights;

    for (int block = 0; block < layer->blocks; block++) {
        float sum[BLOCK];

        for (int k = 0; k < BLOCK; k++) {
            sum[k] = layer->biases[block * BLOCK + k];
        }
        for (int i = 0; i < layer->inputs; i++) {
            for (int k = 0; k < BLOCK; k++) {
                sum[k] += in[i] * weight[k];
            }
            weight += BLOCK;
        }
        for (int k = 0; k < BLOCK; k++) {
            out[block * BLOCK + k] = sum[k];
        }
    }
}

static int rest(int why, float action[], float target[])
{
    for (int i = 0; i < POLICY_ACTIONS; i++) {
        action[i] = 0.0f;
        target[i] = offset[i];
    }
    return why;
}

int policy_step(const float observation[], float action[], float target[])
{
    float *in = memory[0];
    float *out = memory[1];

    for (int i = 0; i < POLICY_OBSERVATIONS; i++) {
        if (!is_finite(observation[i])) {
            return rest(POLICY_BAD_OBSERVATION, action, target);
        }
        in[i] = between((observation[i] - mean[i]) * scale[i], -clip, clip);
    }
    for (int i = 0; i < LAYERS; i++) {
        float *swap = in;

        apply(&layers[i], in, out);
        if (i < LAYERS - 1) {
            for (int k = 0; k < layers[i + 1].inputs; k++) {
                out[k] = activate(out[k]);
            }
        }
        in = out;
        out = swap;
    }
    for (int i = 0; i < POLICY_ACTIONS; i++) {
        if (!is_finite(in[i])) {
            return rest(POLICY_BAD_ACTION, action, target);
        }
    }
    for (int i = 0; i < POLICY_ACTIONS; i++) {
        action[i] = between($squash, -1.0f, 1.0f);
        target[i] = offset[i] + (action[i] > 0.0f ? up[i] : down[i]) * action[i];
        target[i] = between(target[i], lower[i], upper[i]);
    }
    return POLICY_OK;
}
