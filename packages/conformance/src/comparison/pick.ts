import fc from "fast-check"
import type { JobCount } from "@kiln/core/ports"

/** As `fc.record`, without the objects of no prototype that reports would be full of. */
export const record = <A>(parts: { readonly [K in keyof A]: fc.Arbitrary<A[K]> }): fc.Arbitrary<A> =>
  fc.record<A>(parts, { noNullPrototype: true })

/** A way to pick: mostly something present, occasionally anything that ever existed. */
export interface Choice {
  readonly back: number
  readonly from: "present" | "ever" | "superseded" | "ended"
}
export const pick: fc.Arbitrary<Choice> = record({
  back: fc.oneof({ weight: 5, arbitrary: fc.nat(5) }, { weight: 1, arbitrary: fc.nat(60) }),
  from: fc.constantFrom("present", "present", "present", "present", "present", "ever", "superseded", "ended"),
})

/** Picks from what there is of the chosen sort, else from all there ever was. */
export const pickFrom = <A>(
  { back, from }: Choice,
  lists: { readonly [F in Choice["from"]]?: ReadonlyArray<A> } & { readonly ever: ReadonlyArray<A> },
): A | undefined => {
  const chosen = lists[from] ?? lists.ever
  return latest(chosen.length > 0 ? chosen : lists.ever, back)
}

/** Picks from a list, 0 the latest; `undefined` from an empty one. */
export const latest = <A>(list: ReadonlyArray<A>, pick: number): A | undefined =>
  list[list.length - 1 - (pick % Math.max(1, list.length))]

/** A list whose order says nothing. */
export const unordered = <A>(list: ReadonlyArray<A>, key: (item: A) => string): ReadonlyArray<A> =>
  list.toSorted((a, b) => (key(a) < key(b) ? -1 : 1))

export const countsInOrder = (counts: ReadonlyArray<JobCount>): ReadonlyArray<JobCount> =>
  unordered(counts, ({ kind, mode, status }) => `${kind} ${mode} ${status}`)
