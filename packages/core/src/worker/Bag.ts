/** A member of a `Bag`. Only the bag writes its place. */
export interface Placed {
  place: number
}

/** The place of an object that is not in its bag. */
export const nowhere = -1

/**
 * A set of objects, each in at most one bag, without an order. A `Set` replaces its table every few hundred changes, and each old table
 * refers to the next one. Once one of them is old to the garbage collector, it keeps all members of all later tables alive until
 * the next collection of the whole heap. Former members of a bag are not kept.
 */
export class Bag<Member extends Placed> implements Iterable<Member> {
  readonly #members: Array<Member> = []

  get size(): number {
    return this.#members.length
  }

  /** Adds an object that is in no bag. */
  add(member: Member): void {
    member.place = this.#members.length
    this.#members.push(member)
  }

  /** Returns false if the object is not in the bag. */
  delete(member: Member): boolean {
    const { place } = member
    const last = this.#members.at(-1)
    if (place === nowhere || last === undefined) return false
    this.#members[place] = last
    last.place = place
    this.#members.length -= 1
    member.place = nowhere
    return true
  }

  /** The members that the bag has now: it may change while they are looked at. */
  [Symbol.iterator](): Iterator<Member> {
    return this.#members.slice().values()
  }
}
