import { givenField, valueOf } from "../domain/realms.ts"
import { providerNames } from "./builtInPorts.ts"
import type { Providers } from "./Provider.ts"
import type { ProviderBounds, ProviderPort } from "./ProviderPort.ts"

/**
 * Returns the names of the providers whose limits and circuit hold for sandbox jobs as well.
 *
 * Sandbox providers stand in for live ones, cost nothing and need no limits. But a program that never sets a mode runs all of its jobs
 * as sandbox jobs, and its provider does the real work. So limits hold in the sandbox where a port has no other live provider: for
 * ports of the program's own, and for built-in ones with a rate or a limit of concurrent calls.
 */
export const limitedInSandbox = (
  { live, sandbox }: Providers["Service"],
  ports: ReadonlyArray<Pick<ProviderPort, "bounds" | "name">>,
  settings: Readonly<Record<string, ProviderBounds | undefined>>,
): ReadonlySet<string> =>
  new Set(
    ports
      .filter(({ bounds, name }) => {
        const { concurrency, rate } = valueOf(settings, name) ?? bounds
        const inLive = givenField(live, name)
        const inSandbox = givenField(sandbox, name)
        const standsIn = inLive !== undefined && inLive !== inSandbox
        const isOwn = !providerNames.some((builtIn) => builtIn === name)
        return inSandbox !== undefined && !standsIn && (isOwn || rate !== undefined || concurrency > 0)
      })
      .map(({ name }) => name),
  )
