import { shapes } from "./shapes.ts"
import { type TargetName, targetNames } from "./Target.ts"

export interface FuzzPlan {
  readonly connections: number
  readonly seed: number
  readonly targets: ReadonlyArray<TargetName>
  /** One shape alone. */
  readonly only: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

const wholeOf = (environment: Environment, name: string, otherwise: number): number => {
  const number = Number(environment[name] ?? otherwise)
  if (Number.isSafeInteger(number) && number > 0) return number
  throw new TypeError(`${name} must be a positive integer, not "${environment[name]}"`)
}

/** One of the names, or `undefined` where none is given. */
const nameOf = <A extends string>(environment: Environment, name: string, all: ReadonlyArray<A>): A | undefined => {
  const text = environment[name] ?? ""
  const found = all.find((one) => one === text)
  if (text === "" || found !== undefined) return found
  throw new TypeError(`${name} must be one of: ${all.join(", ")}`)
}

/** A hundred thousand connections to each target with seed 1, unless `KILN_FUZZ_...` overrides it. */
export const planFrom = (environment: Environment): FuzzPlan => {
  const target = nameOf(environment, "KILN_FUZZ_TARGET", targetNames)
  return {
    connections: wholeOf(environment, "KILN_FUZZ_CONNECTIONS", 100_000),
    seed: wholeOf(environment, "KILN_FUZZ_SEED", 1),
    targets: target === undefined ? targetNames : [target],
    only: nameOf(environment, "KILN_FUZZ_ONLY", Object.keys(shapes)),
  }
}
