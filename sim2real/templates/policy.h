/* $banner */
#ifndef POLICY_H
#define POLICY_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    POLICY_OBSERVATIONS = $observations,
    POLICY_ACTIONS = $actions,
    POLICY_RATE_HZ = $rate, /* calls of policy_step a second, as in training */

    /* Where each term of the observation begins; unit of its numbers. */
$terms

    /* Where each actuator stands in action and target; unit of its target. */
$actuators
};

enum {
    POLICY_OK = 0,
    POLICY_BAD_OBSERVATION = 1, /* an input is infinite or not a number */
    POLICY_BAD_ACTION = 2       /* the network's output is */
};

/* One step of the policy.
 *
 * observation: POLICY_OBSERVATIONS numbers, raw: in the units above, neither scaled nor clipped.
 * action:      POLICY_ACTIONS numbers in [-1, 1]; the next observation's last action.
 * target:      POLICY_ACTIONS numbers for the actuators, in the units above, within their limits.
 *
 * Returns POLICY_OK, or the reason why it did not act; action is then 0 and target what it means, the resting target of
 * each actuator. Memory is static, so one thread at a time may call it. */
int policy_step(const float observation[], float action[], float target[]);

#ifdef __cplusplus
}
#endif

#endif
