/* $banner
 *
 * Proves policy.c on the processor that will run it, with $count steps and what the exporting machine gave for them:
 *
 *     cc -std=c99 -O2 check.c policy.c -lm -o /tmp/check && /tmp/check
 */
#include "policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = $count };

static const float tolerance = 1e-5f; /* relative to the larger of 1 and the number */
$tables
static const float actions[COUNT][POLICY_ACTIONS] = {
$golden_actions
};
static const float targets[COUNT][POLICY_TARGETS] = {
$golden_targets
};

static float off(float ours, float theirs)
{
    return fabsf(ours - theirs) / fmaxf(1.0f, fabsf(theirs));
}

int main(void)
{
    struct policy_input input;
    struct policy_state state;
    float action[POLICY_ACTIONS];
    float target[POLICY_TARGETS];
    float worst = 0.0f;

    for (int i = 0; i < COUNT; i++) {
        $copies
        if (i == 0) {
            policy_begin(&input, &state);
        }
        if (policy_step(&input, &state, action, target) != POLICY_OK) {
            printf("step %d was refused\n", i);
            return 1;
        }
        for (int k = 0; k < POLICY_ACTIONS; k++) {
            worst = fmaxf(worst, off(action[k], actions[i][k]));
        }
        for (int k = 0; k < POLICY_TARGETS; k++) {
            worst = fmaxf(worst, off(target[k], targets[i][k]));
        }
    }
    input.$first[0] = HUGE_VALF;
    if (policy_step(&input, &state, action, target) != POLICY_BAD_INPUT) {
        printf("an infinite input was not refused\n");
        return 1;
    }
    printf("largest difference from the exporting machine: %.3g\n", (double)worst);
    return worst <= tolerance ? 0 : 1;
}
