import { builtInPorts, type ProviderPort } from "../providers/index.ts"
import type { JobKind } from "./JobKind.ts"

/**
 * Returns the provider ports of an installation: the built-in ones and those its kinds declare. Throws `TypeError` if two ports
 * have the same name.
 */
export const portsOf = (kinds: ReadonlyArray<JobKind>): ReadonlyArray<ProviderPort> => {
  const ports = new Set<ProviderPort>([...builtInPorts, ...kinds.flatMap((kind) => kind.ports)])
  const names = [...ports].map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new TypeError(`two provider ports are named "${twice}"; rename one of them`)
  return [...ports]
}
