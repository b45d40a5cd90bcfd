import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Declared } from "../src/capabilities.ts"
import { storePlaceChecks } from "../src/durability/storePlaceChecks.ts"
import { planPlaceChecks } from "../src/durabilityConformance.ts"
import { blobStoreConformance, durabilityConformance, storeConformance } from "../src/index.ts"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"

const place = Effect.succeed(MemoryStores.layer)
const half = { durable: true, multiProcess: false } as const
const reasons = { multiProcess: "one process owns the file" }

describe("a capability declared as false", () => {
  it("requires a reason, in the types and at run time", () => {
    // @ts-expect-error a reason is missing
    expect(() => durabilityConformance({ name: "x", place, capabilities: half })).toThrow("reasons.multiProcess")
    expect(() =>
      // @ts-expect-error the reason is one for another capability
      durabilityConformance({ name: "x", place, capabilities: half, reasons: { durable: "no" } }),
    ).toThrow("reasons.durable explains a capability")
    const capabilities = { durable: false, multiProcess: false } as const
    // @ts-expect-error a reason is missing
    expect(() => storeConformance({ name: "x", layer: MemoryStores.layer, capabilities, reasons })).toThrow(
      "reasons.durable",
    )
    // @ts-expect-error both reasons are missing
    expect(() => blobStoreConformance({ name: "x", layer: MemoryBlobStore.layer, capabilities })).toThrow(
      "reasons.durable",
    )
    expect(() => planPlaceChecks({ name: "x", place, capabilities: half, reasons: { multiProcess: " " } }, [])).toThrow(
      "does not say why",
    )
  })

  it("cannot be declared by a value of type boolean", () => {
    const either: boolean = storePlaceChecks.length > 0
    // @ts-expect-error the declaration is a literal
    const declared: Declared = { capabilities: { durable: either, multiProcess: true } }
    expect(declared.capabilities.durable).toBe(true)
  })

  it("skips the checks that need it, each with the reason, and no others", () => {
    const planned = planPlaceChecks({ name: "x", place, capabilities: half, reasons }, storePlaceChecks)
    expect(planned.map(({ name }) => name)).toEqual(storePlaceChecks.map(({ name }) => name))
    for (const [n, check] of storePlaceChecks.entries()) {
      const skipped = check.needs === "multiProcess" ? { skipped: "one process owns the file" } : {}
      expect(planned[n]).toMatchObject(skipped)
      expect("run" in (planned[n] ?? {})).toBe(check.needs === "durable")
    }
  })
})

it("a reason for an existing capability is refused", () => {
  const capabilities = { durable: true, multiProcess: true } as const
  // @ts-expect-error nothing is skipped for this
  expect(() => planPlaceChecks({ name: "x", place, capabilities, reasons }, [])).toThrow("explains a capability")
})

it("without a place, checks that need one are skipped with a reason", () => {
  const capabilities = { durable: true, multiProcess: true } as const
  const planned = planPlaceChecks({ name: "x", capabilities }, storePlaceChecks)
  for (const test of planned) expect(test).toMatchObject({ skipped: expect.stringContaining("no `place`") })
})
