import * as Fiber from "effect/Fiber"
import * as Tracer from "effect/Tracer"
import { inProgramContext } from "./programContext.ts"

/**
 * Calls a function of the program for a job. It sees no `AsyncLocalStorage` of a caller: a fiber that runs jobs is resumed by whatever
 * happens next in the process, such as the request of another user. The fiber's span stays active.
 */
export const outsideOfCallers = <A>(call: () => A): A => {
  const fiber = Fiber.getCurrent()
  const activate = fiber?.getRef(Tracer.Tracer).context
  return inProgramContext(() =>
    fiber === undefined || activate === undefined ? call() : activate({ "~effect/Effect/evaluate": call }, fiber),
  )
}
