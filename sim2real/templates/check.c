/* $banner
 *
 * Proves policy.c on the processor that will run it, with $count inputs and the outputs PyTorch gave for them:
 *
 *     cc -std=c99 -O2 check.c policy.c -lm -o /tmp/check && /tmp/check
 */
#include "policy.h"

#include <math.h>
#include <stdio.h>

enum { COUNT = $count };

static const float tolerance = 1e-5f; /* of actions, and of targets relative to the larger of 1 and their range */
static const float observations[COUNT][POLICY_OBSERVATIONS] = {
$golden_observations
};
static const float actions[COUNT][POLICY_ACTIONS] = {
$golden_actions
};
static const float targets[COUNT][POLICY_ACTIONS] = {
$golden_targets
};
static const float ranges[POLICY_ACTIONS] = {
$ranges
};

int main(void)
{
    float bad[POLICY_OBSERVATIONS] = {0.0f};
    float action[POLICY_ACTIONS];
    float target[POLICY_ACTIONS];
    float worst = 0.0f;

    for (int i = 0; i < COUNT; i++) {
        if (policy_step(observations[i], action, target) != POLICY_OK) {
            printf("input %d was refused\n", i);
            return 1;
        }
        for (int k = 0; k < POLICY_ACTIONS; k++) {
            worst = fmaxf(worst, fabsf(action[k] - actions[i][k]));
            worst = fmaxf(worst, fabsf(target[k] - targets[i][k]) / ranges[k]);
        }
    }
    bad[POLICY_OBSERVATIONS - 1] = HUGE_VALF;
    if (policy_step(bad, action, target) != POLICY_BAD_OBSERVATION) {
        printf("an infinite input was not refused\n");
        return 1;
    }
    printf("largest difference from PyTorch: %.3g\n", (double)worst);
    return worst <= tolerance ? 0 : 1;
}
