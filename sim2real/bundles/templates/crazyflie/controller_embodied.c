/* $banner
 *
 * An out-of-tree controller for the Crazyflie's firmware. Until the parameter embodied.enable is 1 the firmware's PID
 * controller flies; then the policy does, as long as there is a position setpoint. Whatever goes wrong hands the drone
 * back to PID, and only setting the parameter to 0 and to 1 again gives the policy another chance.
 */
#include "policy.h"

#include <stdbool.h>
#include <stdint.h>

#include "controller.h"
#include "controller_pid.h"
#include "log.h"
#include "param.h"
#include "platform_defaults.h"
#include "stabilizer_types.h"

#ifndef THRUST_MAX
#error "this firmware states no THRUST_MAX (N per rotor at full power); see platform_defaults.h"
#endif

enum { STEPS_PER_ACTION = RATE_MAIN_LOOP / (int)POLICY_RATE_HZ };

static const float rad_per_deg = 0.017453293f;
static const float command_low[3] = $command_low;   /* m, smallest in training */
static const float command_high[3] = $command_high; /* m, largest in training */
static const float lowest[3] = $lowest;   /* m, where it may be */
static const float highest[3] = $highest; /* m */
static const float least_up = $least_up; /* cosine of the largest tilt */
/* N = linear n + square n^2, thrust of a rotor whose target is n $unit, as in training */
static const float linear[POLICY_TARGETS] = $linear;
static const float square[POLICY_TARGETS] = $square;

static uint8_t enable;  /* what the operator wants */
static uint8_t active;  /* the policy flies */
static uint8_t tripped; /* it gave up; 1: input, 2: target, 3: left its space, 4: tilted too far */
static struct policy_input input;
static struct policy_state memory;
static float action[POLICY_ACTIONS];
static float target[POLICY_TARGETS];
static float thrust[POLICY_TARGETS]; /* N */

static float bounded(float value, float low, float high)
{
    return value < low ? low : value > high ? high : value;
}

static int leaves_space(const state_t *state)
{
    const float place[3] = {state->position.x, state->position.y, state->position.z};
    const float x = state->attitudeQuaternion.x;
    const float y = state->attitudeQuaternion.y;

    for (int i = 0; i < 3; i++) {
        if (place[i] < lowest[i] || place[i] > highest[i]) {
            return 3;
        }
    }
    return 1.0f - 2.0f * (x * x + y * y) < least_up ? 4 : 0;
}

static void measure(const setpoint_t *setpoint, const sensorData_t *sensors, const state_t *state)
{
    const float command[3] = {setpoint->position.x, setpoint->position.y, setpoint->position.z};

    (void)sensors; /* not every policy reads the gyro */
$measured
    for (int i = 0; i < 3; i++) {
        input.$command[i] = bounded(command[i], command_low[i], command_high[i]);
    }
}

/* One step of the policy; 0, or why it gave up. */
static int step(const state_t *state)
{
    const int why = leaves_space(state);

    if (why != 0) {
        return why;
    }
    if (!active) {
        policy_begin(&input, &memory);
    }
    return policy_step(&input, &memory, action, target);
}

static bool wanted(const setpoint_t *setpoint)
{
    return enable == 1 && tripped == 0 && setpoint->mode.x == modeAbs && setpoint->mode.y == modeAbs &&
           setpoint->mode.z == modeAbs;
}

void controllerOutOfTreeInit(void)
{
    enable = 0;
    active = 0;
    tripped = 0;
    controllerPidInit();
}

bool controllerOutOfTreeTest(void)
{
    /* The policy must give what it gave where it was exported; the flash may be damaged. */
    const float expected[POLICY_ACTIONS] = $expected;
    const float tolerance = 1e-4f;
    bool right;

$golden
    policy_begin(&input, &memory);
    right = policy_step(&input, &memory, action, target) == POLICY_OK;
    for (int i = 0; i < POLICY_ACTIONS; i++) {
        right = right && action[i] - expected[i] < tolerance && expected[i] - action[i] < tolerance;
    }
    return right && controllerPidTest();
}

void controllerOutOfTree(control_t *control, const setpoint_t *setpoint, const sensorData_t *sensors,
                         const state_t *state, const uint32_t stabilizerStep)
{
    if (enable == 0) {
        tripped = 0;
    }
    if (wanted(setpoint) && stabilizerStep % STEPS_PER_ACTION == 0) {
        measure(setpoint, sensors, state);
        tripped = (uint8_t)step(state);
        active = tripped == 0 ? 1 : active;
    }
    if (active && !wanted(setpoint)) {
        active = 0;
        controllerPidInit();
    }
    if (!active) {
        control->controlMode = controlModeLegacy;
        controllerPid(control, setpoint, sensors, state, stabilizerStep);
        return;
    }
    control->controlMode = controlModeForce;
    for (int i = 0; i < POLICY_TARGETS; i++) {
        thrust[i] = (linear[i] + square[i] * target[i]) * target[i];
        control->normalizedForces[i] = bounded(thrust[i] / THRUST_MAX, 0.0f, 1.0f);
    }
}

PARAM_GROUP_START(embodied)
PARAM_ADD(PARAM_UINT8, enable, &enable)
PARAM_GROUP_STOP(embodied)

LOG_GROUP_START(embodied)
LOG_ADD(LOG_UINT8, active, &active)
LOG_ADD(LOG_UINT8, tripped, &tripped)
LOG_ADD(LOG_FLOAT, thrust1, &thrust[0])
LOG_ADD(LOG_FLOAT, thrust2, &thrust[1])
LOG_ADD(LOG_FLOAT, thrust3, &thrust[2])
LOG_ADD(LOG_FLOAT, thrust4, &thrust[3])
LOG_GROUP_STOP(embodied)
