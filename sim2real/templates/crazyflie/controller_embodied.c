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

enum { STEPS_PER_ACTION = RATE_MAIN_LOOP / POLICY_RATE_HZ };

struct vector {
    float x, y, z;
};

struct moment {
    float w, x, y, z;       /* attitude, body to world */
    struct vector gyro;     /* rad/s, body */
    struct vector position; /* m, world */
    struct vector velocity; /* m/s, world */
    struct vector command;  /* m, world */
};

static const float rad_per_deg = 0.017453293f;
static const struct vector command_low = $command_low;   /* m, smallest in training */
static const struct vector command_high = $command_high; /* m, largest in training */
static const struct vector lowest = $lowest;   /* m, where it may be */
static const struct vector highest = $highest; /* m */
static const float least_up = $least_up; /* cosine of the largest tilt */

static uint8_t enable;  /* what the operator wants */
static uint8_t active;  /* the policy flies */
static uint8_t tripped; /* it gave up; 1: observation, 2: action, 3: left its space, 4: tilted too far */
static float observation[POLICY_OBSERVATIONS];
static float action[POLICY_ACTIONS];
static float target[POLICY_ACTIONS]; /* N */

static struct vector difference(struct vector a, struct vector b)
{
    const struct vector result = {a.x - b.x, a.y - b.y, a.z - b.z};

    return result;
}

static float bounded(float value, float low, float high)
{
    return value < low ? low : value > high ? high : value;
}

/* A world vector in the body's frame (Diebel, "Representing attitude", 2006, equation 125). */
static struct vector to_body(const struct moment *now, struct vector v)
{
    const float ax = -now->x;
    const float ay = -now->y;
    const float az = -now->z;
    const float cx = 2.0f * (ay * v.z - az * v.y);
    const float cy = 2.0f * (az * v.x - ax * v.z);
    const float cz = 2.0f * (ax * v.y - ay * v.x);
    struct vector turned;

    turned.x = v.x + now->w * cx + ay * cz - az * cy;
    turned.y = v.y + now->w * cy + az * cx - ax * cz;
    turned.z = v.z + now->w * cz + ax * cy - ay * cx;
    return turned;
}

/* Appends a value to the steps that a term remembers; the first value fills all of them. */
static void remember(float *past, const float *value, int size, int history)
{
    const int total = size * history;

    for (int i = 0; i < total; i++) {
        past[i] = active && i + size < total ? past[i + size] : value[i % size];
    }
}

static void remember_vector(float *past, struct vector v, int history)
{
    const float value[3] = {v.x, v.y, v.z};

    remember(past, value, 3, history);
}

static void observe(const struct moment *now)
{
    const struct vector nothing = {0.0f, 0.0f, 0.0f};
    const struct vector up = {0.0f, 0.0f, 1.0f};
    const struct vector body_up = to_body(now, up);
    const struct vector to_command = to_body(now, difference(now->command, now->position));

    /* Not every policy reads all of them. */
    (void)nothing;
    (void)body_up;
    (void)to_command;

$terms
}

static int leaves_space(const struct moment *now)
{
    const struct vector p = now->position;
    const float up = 1.0f - 2.0f * (now->x * now->x + now->y * now->y);

    if (p.x < lowest.x || p.y < lowest.y || p.z < lowest.z || p.x > highest.x || p.y > highest.y || p.z > highest.z) {
        return 3;
    }
    return up < least_up ? 4 : 0;
}

static struct moment measure(const setpoint_t *setpoint, const sensorData_t *sensors, const state_t *state)
{
    struct moment now;

    now.w = state->attitudeQuaternion.w;
    now.x = state->attitudeQuaternion.x;
    now.y = state->attitudeQuaternion.y;
    now.z = state->attitudeQuaternion.z;
    now.gyro.x = sensors->gyro.x * rad_per_deg;
    now.gyro.y = sensors->gyro.y * rad_per_deg;
    now.gyro.z = sensors->gyro.z * rad_per_deg;
    now.position.x = state->position.x;
    now.position.y = state->position.y;
    now.position.z = state->position.z;
    now.velocity.x = state->velocity.x;
    now.velocity.y = state->velocity.y;
    now.velocity.z = state->velocity.z;
    now.command.x = bounded(setpoint->position.x, command_low.x, command_high.x);
    now.command.y = bounded(setpoint->position.y, command_low.y, command_high.y);
    now.command.z = bounded(setpoint->position.z, command_low.z, command_high.z);
    return now;
}

static void start(void)
{
    for (int i = 0; i < POLICY_ACTIONS; i++) {
        action[i] = 0.0f;
    }
}

/* One step of the policy; 0, or why it gave up. */
static int step(const struct moment *now)
{
    const int why = leaves_space(now);

    if (why != 0) {
        return why;
    }
    if (!active) {
        start();
    }
    observe(now);
    return policy_step(observation, action, target);
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
    start();
    controllerPidInit();
}

bool controllerOutOfTreeTest(void)
{
    /* The policy must give what it gives for zeros; the flash may be damaged. */
    const float zeros[POLICY_OBSERVATIONS] = {0.0f};
    const float expected[POLICY_ACTIONS] = $expected;
    const float tolerance = 1e-4f;
    bool right = policy_step(zeros, action, target) == POLICY_OK;

    for (int i = 0; i < POLICY_ACTIONS; i++) {
        right = right && action[i] - expected[i] < tolerance && expected[i] - action[i] < tolerance;
    }
    start();
    return right && controllerPidTest();
}

void controllerOutOfTree(control_t *control, const setpoint_t *setpoint, const sensorData_t *sensors,
                         const state_t *state, const uint32_t stabilizerStep)
{
    if (enable == 0) {
        tripped = 0;
    }
    if (wanted(setpoint) && stabilizerStep % STEPS_PER_ACTION == 0) {
        const struct moment now = measure(setpoint, sensors, state);

        tripped = (uint8_t)step(&now);
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
    for (int i = 0; i < POLICY_ACTIONS; i++) {
        control->normalizedForces[i] = bounded(target[i] / THRUST_MAX, 0.0f, 1.0f);
    }
}

PARAM_GROUP_START(embodied)
PARAM_ADD(PARAM_UINT8, enable, &enable)
PARAM_GROUP_STOP(embodied)

LOG_GROUP_START(embodied)
LOG_ADD(LOG_UINT8, active, &active)
LOG_ADD(LOG_UINT8, tripped, &tripped)
LOG_ADD(LOG_FLOAT, thrust1, &target[0])
LOG_ADD(LOG_FLOAT, thrust2, &target[1])
LOG_ADD(LOG_FLOAT, thrust3, &target[2])
LOG_ADD(LOG_FLOAT, thrust4, &target[3])
LOG_GROUP_STOP(embodied)
