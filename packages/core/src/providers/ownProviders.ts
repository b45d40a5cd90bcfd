import type { AnyProvider } from "./Provider.ts"

/** Providers that a program gave as functions of its own. Those of packages are wrapped, such as the samples of the sandbox. */
const own = new WeakSet<object>()

/** Marks a provider as one of the program's own. */
export const markAsOwn = (provider: AnyProvider): AnyProvider => {
  own.add(provider)
  return provider
}

export const isOwn = (provider: unknown): boolean => typeof provider === "function" && own.has(provider)
