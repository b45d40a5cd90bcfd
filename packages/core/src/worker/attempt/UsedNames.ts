import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { isEngineStep } from "../../domain/Child.ts"
import { isStorableText, progressStep } from "../../domain/index.ts"
import { KindBug } from "../../kinds/KindBug.ts"

/** The functions of a context that use a name. */
type NamedCall =
  | "step"
  | "lastStep"
  | "engine.submit"
  | "engine.submitWith"
  | "children"
  | "sleep"
  | "waitFor"
  | "keepFile"
  | "writeFile"

/** Maximum length of a name in a message, and therefore in the log. */
const shownLength = 64

/**
 * The names that one attempt has used for steps and files. A step's value is stored under its name, from which a later attempt
 * reads it, so two steps with the same name would both get the first one's value. Files with the same name would overwrite each
 * other.
 */
export class UsedNames {
  readonly #used = { step: new Map<string, NamedCall | undefined>(), file: new Map<string, NamedCall | undefined>() }
  #bug: KindBug | undefined

  /**
   * The bug of an attempt that used a name twice. Catching its error does not help: no later step starts, and the bug
   * is reported when the attempt ends.
   */
  get bug(): KindBug | undefined {
    return this.#bug
  }

  /** The bug of an attempt whose work returns now, although a step or a file has begun and not ended; `undefined` if all have ended. */
  get unfinishedBug(): KindBug | undefined {
    for (const used of [this.#used.step, this.#used.file])
      for (const [name, running] of used)
        if (running !== undefined)
          return new KindBug(`run returned before ${shownCall(running, name)} had finished: await it`)
    return undefined
  }

  /** Runs an effect under a name. If it fails, the name may be used again, so that the same step can be retried. */
  readonly once =
    (call: NamedCall, name: string) =>
    <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.suspend(() => {
        const what = call === "keepFile" || call === "writeFile" ? "file" : "step"
        const used = this.#used[what]
        const problem = used.has(name) ? usedTwice(what, name) : what === "step" ? stepProblem(name) : undefined
        if (problem !== undefined) this.#bug ??= new KindBug(problem)
        if (this.#bug !== undefined) return Effect.die(this.#bug)
        used.set(name, call)
        return Effect.onExit(effect, (exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit)) used.delete(name)
            else used.set(name, undefined)
          }),
        )
      })
}

/** A call of a context function, for messages to operators: `children("clips")`. */
export const shownCall = (what: string, name: unknown): string =>
  typeof name === "string" ? `${what}(${JSON.stringify(name.slice(0, shownLength))})` : `${what}()`

/** Maximum length of the name of a step, in UTF-16 code units. Names are keys of stores, and part of the keys of children. */
const maxStepLength = 200

/** Checked before the step runs, because afterwards its work may have been paid for. */
const stepProblem = (name: unknown): string | undefined => {
  if (typeof name !== "string" || name.length > maxStepLength || !isStorableText(name))
    return `the name of a step must be text of up to ${maxStepLength} characters, without U+0000 or unpaired surrogates`
  return name === progressStep || isEngineStep(name)
    ? `a step must not be named "${name.slice(0, shownLength)}"`
    : undefined
}

const usedTwice = (what: "step" | "file", name: string): string => {
  const shown = name.slice(0, shownLength)
  return what === "step"
    ? `step "${shown}" was used twice in this attempt; give each step a unique name, e.g. "${shown}-1"`
    : `file "${shown}" was written twice in this attempt; declare a separate file for each`
}
