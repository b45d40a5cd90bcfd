import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { Effect } from "effect"

/**
 * Has the garbage of the start collected once, when the service has said that it listens. Reading and compiling some
 * hundreds of modules leaves about 50 MB behind that V8 would keep as room to grow; the promise is to stay under 300 MB
 * with fifty uploads of 25 MiB at once. Takes some tens of milliseconds, once.
 */
export const collectStartUp: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as ((options: { type: string; flavor: string }) => void) | undefined
  collect?.({ type: "major", flavor: "last-resort" })
})
