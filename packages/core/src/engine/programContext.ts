/** The values of a chain of calls, timers and promises. */
export interface AsyncStorage<Value> {
  readonly run: <A>(value: Value, work: () => A) => A
  readonly getStore: () => Value | undefined
}

interface AsyncHooks {
  readonly AsyncLocalStorage: new <Value>() => AsyncStorage<Value>
  readonly AsyncResource: new (name: string) => { readonly runInAsyncScope: <A>(call: () => A) => A }
}

/** Runtimes with Node's built-in modules: Node, Deno, Bun, and Workers in their Node mode. */
interface NodeProcess {
  readonly getBuiltinModule?: (id: "node:async_hooks") => AsyncHooks | undefined
}

/** Looked up and not imported: the package runs without Node, too. */
export const asyncHooks: AsyncHooks | undefined = (
  globalThis as { readonly process?: NodeProcess }
).process?.getBuiltinModule?.("node:async_hooks")

/** Has the asynchronous context in which this module was loaded. A call costs an eighth of one of `AsyncLocalStorage.snapshot()`. */
const program = asyncHooks && new asyncHooks.AsyncResource("kiln")

/** Calls a function in the context of the program, not of a request. Without Node, where it is. */
export const inProgramContext = <A>(call: () => A): A =>
  program === undefined ? call() : program.runInAsyncScope(call)
