import { asyncHooks } from "../engine/programContext.ts"
import type { RunningStep } from "../worker/attempt/UsedNames.ts"

/** Without Node, a call in a step is not told apart. */
const storage = asyncHooks && new asyncHooks.AsyncLocalStorage<RunningStep>()

/** Calls the function of a step, so that the functions of the attempt that it calls know that they are called in it. */
export const inStep = <A>(step: RunningStep | undefined, work: () => A): A =>
  step === undefined || storage === undefined ? work() : storage.run(step, work)

/** Returns the step whose function is calling; `undefined` outside of one. */
export const stepOfCaller = (): RunningStep | undefined => storage?.getStore()
