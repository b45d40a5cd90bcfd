import type { UsedPart } from "./Models.ts"

/**
 * Returns the same model without its warnings. The AI SDK prints them, and an operator cannot act on them ("size is not
 * supported"); its own switch for warnings is global to the program. `overrides` replace options that the AI SDK passes to
 * the model.
 */
export const quiet = <M extends object>(model: UsedPart<M>, overrides: Readonly<Record<string, unknown>> = {}): M =>
  // Not a proxy of the model itself, because properties of a frozen model cannot be replaced.
  new Proxy({} as M, {
    has: (_, name) => name in model,
    get: (_, name) => {
      const value: unknown = Reflect.get(model, name, model)
      if (typeof value !== "function") return value
      return async (...args: ReadonlyArray<unknown>) => {
        const [options] = args
        if (name !== "doGenerate") return Reflect.apply(value, model, args) as unknown
        const result: unknown = await Reflect.apply(value, model, [{ ...asObject(options), ...overrides }])
        return { ...asObject(result), warnings: [] }
      }
    },
  })

const asObject = (value: unknown): object => (typeof value === "object" && value !== null ? value : {})
