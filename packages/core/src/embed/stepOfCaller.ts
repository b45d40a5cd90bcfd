import type { RunningStep } from "../worker/attempt/UsedNames.ts"

interface Storage {
  readonly run: <A>(value: RunningStep, work: () => A) => A
  readonly getStore: () => RunningStep | undefined
}

interface AsyncHooks {
  readonly AsyncLocalStorage: new () => Storage
}

/** Runtimes with Node's built-in modules: Node, Deno, Bun, and Workers in their Node mode. */
interface NodeProcess {
  readonly getBuiltinModule?: (id: "node:async_hooks") => AsyncHooks | undefined
}

/** Looked up and not imported, so that the package runs without Node. Without it, a call in a step is not told apart. */
const storageOf = (): Storage | undefined => {
  const { process } = globalThis as { readonly process?: NodeProcess }
  const hooks = process?.getBuiltinModule?.("node:async_hooks")
  return hooks && new hooks.AsyncLocalStorage()
}

const storage = storageOf()

/** Calls the function of a step, so that the functions of the attempt that it calls know that they are called in it. */
export const inStep = <A>(step: RunningStep | undefined, work: () => A): A =>
  step === undefined || storage === undefined ? work() : storage.run(step, work)

/** Returns the step whose function is calling; `undefined` outside of one. */
export const stepOfCaller = (): RunningStep | undefined => storage?.getStore()
