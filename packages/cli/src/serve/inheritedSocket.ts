import * as Effect from "effect/Effect"
import { type CommandFailed, misused } from "../CommandFailed.ts"
import type { Environment } from "../settings/settingFiles.ts"

/** The first descriptor that systemd passes. */
const firstDescriptor = 3

/**
 * Returns the descriptor of the listening socket that systemd opened for this process (`kiln-api@.socket`), or `undefined`. Such a
 * socket stays open while kiln restarts: connections wait in it instead of being refused.
 */
export const inheritedSocket = (
  { LISTEN_FDS: count, LISTEN_PID: pid }: Environment,
  ownPid: number = process.pid,
): Effect.Effect<number | undefined, CommandFailed> => {
  // The variables are inherited by child processes, which they do not concern.
  if (count === undefined || pid !== String(ownPid)) return Effect.undefined
  return count === "1"
    ? Effect.succeed(firstDescriptor)
    : Effect.fail(misused(`the socket unit passes ${count} sockets; kiln serves one: use one ListenStream= per unit`))
}
