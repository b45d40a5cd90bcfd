import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as Effect from "effect/Effect"

/**
 * Collects the garbage of startup once the service listens. Loading and compiling several hundred modules leaves about 50 MB
 * that V8 would keep as room to grow; the process must stay below 300 MB with fifty concurrent uploads of 25 MiB. Takes some
 * tens of milliseconds, once.
 */
export const collectStartUp: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as ((options: { type: string; flavor: string }) => void) | undefined
  collect?.({ type: "major", flavor: "last-resort" })
})
