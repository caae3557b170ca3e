/* $banner */
#include "policy.h"

#include <math.h>
#include <stdint.h>

$tables

$memory

static const float resting[POLICY_TARGETS] = {
$rest
};

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

$helpers

static int rest(int why, float action[], float target[])
{
    for (int i = 0; i < POLICY_ACTIONS; i++) {
        action[i] = 0.0f;
    }
    for (int i = 0; i < POLICY_TARGETS; i++) {
        target[i] = resting[i];
    }
    return why;
}

void policy_begin(const struct policy_input *input, struct policy_state *state)
{
    (void)input;
    $begin
}

static void compute(const struct policy_input *input, const struct policy_state *state)
{
    int i, j;

    (void)i;
    (void)j;
    (void)state;
    $statements
}

int policy_observe(const struct policy_input *input, const struct policy_state *state, float observation[])
{
    int finite = 1;
    int i;

    $measured_tests
    if (!finite) {
        return POLICY_BAD_INPUT;
    }
    compute(input, state);
    for (i = 0; i < POLICY_OBSERVATIONS; i++) {
        observation[i] = $observation[i];
    }
    return POLICY_OK;
}

int policy_step(const struct policy_input *input, struct policy_state *state, float action[], float target[])
{
    struct policy_state next;
    int finite = 1;
    int i;

    $tests
    if (!finite) {
        return rest(POLICY_BAD_INPUT, action, target);
    }
    compute(input, state);
    $ends
    for (i = 0; i < POLICY_TARGETS; i++) {
        finite &= is_finite($target[i]);
    }
    if (!finite) {
        return rest(POLICY_BAD_TARGET, action, target);
    }
    for (i = 0; i < POLICY_ACTIONS; i++) {
        action[i] = $action[i];
    }
    for (i = 0; i < POLICY_TARGETS; i++) {
        target[i] = $target[i];
    }
    *state = next;
    return POLICY_OK;
}
