import { givenField, valueOf } from "../domain/givenValues.ts"
import { providerNames } from "./builtInPorts.ts"
import type { AnyProvider, Providers } from "./Provider.ts"
import type { ProviderBounds, ProviderPort } from "./ProviderPort.ts"

/** Providers that a program gave as functions of its own. Those of packages are wrapped, such as the samples of the sandbox. */
const own = new WeakSet<object>()

/** Marks a provider as one of the program's own. */
export const markAsOwn = (provider: AnyProvider): AnyProvider => {
  own.add(provider)
  return provider
}

const isOwn = (provider: unknown): boolean => typeof provider === "function" && own.has(provider)

type Port = Pick<ProviderPort, "bounds" | "name">
type Settings = Readonly<Record<string, ProviderBounds | undefined>>

/** Whether the program or the port limits a provider beyond the default of its port. */
const isLimited = ({ bounds, name }: Port, settings: Settings): boolean => {
  const { callLimitMs, concurrency, rate } = valueOf(settings, name) ?? bounds
  return rate !== undefined || concurrency > 0 || callLimitMs !== bounds.callLimitMs
}

/** Whether the sandbox provider stands in for another live one. */
const standsIn = ({ live, sandbox }: Providers["Service"], name: string): boolean => {
  const inLive = givenField(live, name)
  return inLive !== undefined && inLive !== givenField(sandbox, name)
}

/**
 * Returns the names of the providers whose limits and circuit hold for sandbox jobs as well.
 *
 * Sandbox providers stand in for live ones, cost nothing and need no limits. But a program that never sets a mode runs all of its jobs
 * as sandbox jobs, and its provider does the real work. So limits hold in the sandbox where a port has no other live provider: for
 * ports of the program's own, and for built-in ones with a limit of their own.
 */
export const limitedInSandbox = (
  providers: Providers["Service"],
  ports: ReadonlyArray<Port>,
  settings: Settings,
): ReadonlySet<string> =>
  new Set(
    ports
      .filter((port) => {
        const hasOwnPort = !providerNames.some((builtIn) => builtIn === port.name)
        const isServed = givenField(providers.sandbox, port.name) !== undefined
        return isServed && !standsIn(providers, port.name) && (hasOwnPort || isLimited(port, settings))
      })
      .map(({ name }) => name),
  )

/**
 * Returns the names of the program's own providers that sandbox jobs call without timeout and circuit, although they do the real work.
 */
export const unlimitedInSandbox = (
  providers: Providers["Service"],
  ports: ReadonlyArray<Port>,
  settings: Settings,
): ReadonlyArray<string> => {
  const limited = limitedInSandbox(providers, ports, settings)
  return ports
    .map(({ name }) => name)
    .filter((name) => isOwn(givenField(providers.sandbox, name)) && !standsIn(providers, name) && !limited.has(name))
}

/** Returns the names of the providers whose limits hold for live jobs only, because sandbox jobs use another provider. */
export const limitedInLiveOnly = (
  providers: Providers["Service"],
  ports: ReadonlyArray<Port>,
  settings: Settings,
): ReadonlyArray<string> =>
  ports
    .filter(
      (port) =>
        givenField(providers.sandbox, port.name) !== undefined &&
        standsIn(providers, port.name) &&
        isLimited(port, settings),
    )
    .map(({ name }) => name)
