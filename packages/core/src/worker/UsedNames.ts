import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { KindBug } from "../kinds/KindBug.ts"

/** Longest part of a name that goes into a message and so into the log. */
const shownLength = 64

/**
 * Names that one attempt has used for steps and for files. A step's value is kept under its name, and a later attempt gets it
 * back by that name: two steps that shared one would both get the value of the first. Files of one name would overwrite each
 * other.
 */
export class UsedNames {
  readonly #used = { step: new Set<string>(), file: new Set<string>() }
  #bug: KindBug | undefined

  /**
   * The bug of an attempt that used a name twice. Catching its error does not help: no step begins from then on, and the
   * attempt's end is checked.
   */
  get bug(): KindBug | undefined {
    return this.#bug
  }

  /** Does something under a name. The name is free again if it fails, so that the same step may be tried again. */
  readonly once =
    (what: "step" | "file", name: string) =>
    <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.suspend(() => {
        const used = this.#used[what]
        if (used.has(name)) this.#bug ??= new KindBug(usedTwice(what, name))
        if (this.#bug !== undefined) return Effect.die(this.#bug)
        used.add(name)
        return Effect.onExit(effect, (exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit)) used.delete(name)
          }),
        )
      })
}

const usedTwice = (what: "step" | "file", name: string): string => {
  const shown = name.slice(0, shownLength)
  return what === "step"
    ? `step "${shown}" was used twice in this attempt; give each step a unique name, e.g. "${shown}-1"`
    : `file "${shown}" was written twice in this attempt; declare a separate file for each`
}
