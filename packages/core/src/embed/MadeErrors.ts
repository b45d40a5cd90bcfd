import { isTaggedError } from "../domain/realms.ts"
import type { AttemptFailed } from "../kinds/AttemptContext.ts"
import { KindBug } from "../kinds/KindBug.ts"
import { fail } from "./fail.ts"

/**
 * The errors that an attempt has made with `fail` and not thrown yet. An error that nothing throws has no effect, which is a bug.
 * One that the function throws and catches itself cannot be told from it.
 */
export class MadeErrors {
  #codes: Map<unknown, string> | undefined

  readonly fail: typeof fail = (code, options) => {
    const error = fail(code, options)
    ;(this.#codes ??= new Map()).set(error, code)
    return error
  }

  /** Says that the function of a step or a file has thrown this. */
  wasThrown(thrown: unknown): void {
    this.#codes?.delete(thrown)
  }

  /** The bug of a function that returns this after it made an error that nothing has thrown; `undefined` without one. */
  bug(returned: unknown): KindBug | undefined {
    if (isTaggedError<AttemptFailed>(returned, "AttemptFailed"))
      return new KindBug(`run returned fail("${returned.errorCode}"): write throw fail("${returned.errorCode}")`)
    const [code] = this.#codes?.values() ?? []
    return code === undefined
      ? undefined
      : new KindBug(
          `fail("${code}") has no effect unless its error ends run: write throw fail("${code}"); where run catches it, throw an error of your own`,
        )
  }
}
