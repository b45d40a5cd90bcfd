import { describe, expect, it } from "vitest"
import { Bag, nowhere, type Placed } from "../src/worker/attempt/leases.ts"

const member = (name: string): Placed & { readonly name: string } => ({ name, place: nowhere })

describe("a bag", () => {
  it("has what was added and not deleted", () => {
    const [a, b, c, d] = [member("a"), member("b"), member("c"), member("d")]
    const bag = new Bag<typeof a>()
    for (const one of [a, b, c, d]) bag.add(one)
    expect([bag.delete(b), bag.delete(b), bag.delete(member("e"))]).toEqual([true, false, false])
    expect(bag.delete(d)).toBe(true)
    expect([...bag].map(({ name }) => name).toSorted()).toEqual(["a", "c"])
    bag.add(b)
    expect([bag.delete(a), bag.delete(c), bag.delete(b), bag.size]).toEqual([true, true, true, 0])
  })

  it("shows each member once, also those that are deleted meanwhile", () => {
    const members = ["a", "b", "c", "d"].map(member)
    const bag = new Bag<Placed & { readonly name: string }>()
    for (const one of members) bag.add(one)
    const seen: Array<string> = []
    for (const one of bag) {
      seen.push(one.name)
      bag.delete(one)
    }
    expect(seen).toEqual(["a", "b", "c", "d"])
    expect(bag.size).toBe(0)
  })
})
