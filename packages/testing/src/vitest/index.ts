import { expect } from "vitest"
import { matchers } from "./matchers.ts"

export type { KilnMatchers } from "./matchers.ts"

expect.extend(matchers)
