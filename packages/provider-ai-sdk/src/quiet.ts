import type { UsedPart } from "./Models.ts"

/**
 * The same model without its warnings: the AI SDK prints them, and what they say ("size is not supported") nobody who
 * watches a server can act on. The switch it has for that belongs to the whole program, so it is left alone. `overrides`
 * take the place of what the AI SDK passes to the model.
 */
export const quiet = <M extends object>(model: UsedPart<M>, overrides: Readonly<Record<string, unknown>> = {}): M =>
  // Not a proxy of the model itself: of a frozen one, no property could be replaced.
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
