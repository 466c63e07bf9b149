/* wire.h - the generated messages, and the versions that hello exchanges. */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "wire/common.pb-c.h"
#include "wire/console.pb-c.h"
#include "wire/control.pb-c.h"

#define CONTROL_PROTOCOL_VERSION 1
#define CONSOLE_PROTOCOL_VERSION 1

/* A message of at most a frame is packed without allocation where it fits; larger ones are -EMSGSIZE. */

#endif
