/* $banner */
#ifndef POLICY_H
#define POLICY_H

#ifdef __cplusplus
extern "C" {
#endif

#define POLICY_RATE_HZ $rate /* calls of policy_step a second, as in training */

enum {
    POLICY_TARGETS = $targets,
    POLICY_ACTIONS = $actions,
    POLICY_OBSERVATIONS = $observations,

    /* Where each actuator stands among the targets; its unit. */
$actuators
};

enum {
    POLICY_OK = 0,
    POLICY_BAD_INPUT = 1, /* an input is infinite or not a number */
    POLICY_BAD_TARGET = 2 /* a target is */
};

/* What is measured, estimated and told at this instant. Quaternions are wxyz. */
struct policy_input {
$inputs
};

/* What one step hands to the next. */
struct policy_state {
$state
};

/* The state before the first step, from what is measured then. */
void policy_begin(const struct policy_input *input, struct policy_state *state);

/* What the policy reads, POLICY_OBSERVATIONS numbers, of what is measured and told; planned_action is not used. Changes
 * nothing; returns POLICY_OK or POLICY_BAD_INPUT. */
int policy_observe(const struct policy_input *input, const struct policy_state *state, float observation[]);

/* One control step, from measurements to targets.
 *
 * action: POLICY_ACTIONS numbers in [-1, 1], the policy's own; for logs.
 * target: POLICY_TARGETS numbers for the actuators, in the units above, within their limits.
 *
 * Returns POLICY_OK, or the reason why it did not act: then the state stays, action is 0 and target the resting target
 * of each actuator. Memory is static, so one thread at a time may call it. */
int policy_step(const struct policy_input *input, struct policy_state *state, float action[], float target[]);

#ifdef __cplusplus
}
#endif

#endif
